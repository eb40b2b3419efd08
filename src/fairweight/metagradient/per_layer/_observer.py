"""Watches a forward pass of any model: every function that meets a parameter and something of the samples."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from fairweight import catalog
from fairweight.errors import NotDifferentiable
from fairweight.metagradient.model import Parameters
from fairweight.metagradient.per_layer._frozen_norm import FrozenNorm, Switch
from fairweight.metagradient.per_layer._kind import Call, Given, Kind
from fairweight.metagradient.per_layer._routes import Routes, watched
from fairweight.metagradient.per_layer.kinds.other import Other, outputs
from fairweight.types import map_tensors, tensors

# On a tensor without a gradient that is made of samples: whether it is one number for the whole batch.
_MARK = "_fairweight_of_batch"
_OF_ALL = ("all", "any", "amax", "amin", "count_nonzero", "max", "mean", "median", "min", "norm", "prod", "sum")
_functions: Any = torch._C._functorch
_REDUCES = frozenset(known for name in _OF_ALL for owner in (torch, Tensor) if (known := getattr(owner, name, None)))


class Way(NamedTuple):
    """One way to read a use: its kind, and the edges whose gradient its terms are made of."""

    kind: Kind
    edges: tuple[GradientEdge | None, ...]
    shapes: tuple[torch.Size, ...]
    versions: tuple[int, ...]  # of the tensors that the kind keeps

    def check(self) -> None:
        """Refuse what a later operation wrote over."""
        if any(t._version != v for t, v in zip(self.kind.kept, self.versions, strict=True)):
            raise NotDifferentiable(
                f"What went into {type(self.kind).__name__.lower()} is changed in place after it, so its gradient per "
                "layer is not supported; write that operation without the underscore, or use gradient='forward'."
            )


class Use(NamedTuple):
    """A call that uses parameters, with the ways to read it, the best first."""

    function: Any
    names: frozenset[str]  # of the parameters that take part
    ways: tuple[Way, ...]

    @property
    def signature(self) -> tuple[Any, ...]:
        """What a plan for one pass must find again in another."""
        ranks = tuple(tuple(len(s) for s in way.shapes) for way in self.ways)
        return self.function, self.names, tuple(type(way.kind) for way in self.ways), ranks


class Observer(Routes, TorchFunctionMode):
    """While it is entered, notes every use of these parameters; functions give what they give without it.

    data: what a model is called with; whatever is made of it belongs to samples. What is made of parameters and
    constants alone, such as a transposed, normalised or merged matrix, counts as a parameter itself.
    """

    def __init__(self, parameters: Parameters, data: Any, size: int, frozen: Switch | None = None) -> None:
        """size: number of samples. frozen: while on, it holds the statistics of batch norm constant on the way back."""
        super().__init__()
        self.frozen, self.parameters, self.size = frozen, parameters, size
        self.uses: list[Use] = []
        self._learned = {id(p): (p, frozenset({name})) for name, p in parameters.items()}
        self._data = {id(t): t for t in tensors(data)}

    @property
    def signature(self) -> Any:
        """What two passes must have in common to be read alike."""
        return tuple(use.signature for use in self.uses)

    def names(self, weight: Tensor) -> frozenset[str]:
        """The parameters that a weight is made of."""
        return self._learned[id(weight)][1]

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = self._seen(func, args, kwargs)
        if (watch := watched(func)) is not None:
            self.look(watch, args, kwargs, out)
        return out

    def _seen(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self.frozen is not None and func in _NORMS:
            usual = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}
            call = Call(func, args, kwargs, self._is_learned)
            given = call.read(_NORMS[func], **usual)
            if given["training"]:
                kind, out = FrozenNorm.run(call, given, self.frozen)
                return self._noted(torch.batch_norm, kind.weights, [_way(kind, [out])], out)
        found = _tensors(args, kwargs)
        learned = [t for t in found if id(t) in self._learned]
        if not learned:
            out = func(*args, **kwargs)
            if isinstance(out, Tensor) and out.requires_grad and out.ndim:  # the samples' without a mark
                return out
            self._mark(args[0] if func is Tensor.__setitem__ else out, func, found)
            return out
        if not any(map(self.of_samples, found)):
            out = func(*args, **kwargs)
            self._derive(args[0] if _writes(func) else out, learned)
            return out
        if not torch.is_grad_enabled():
            out = func(*args, **kwargs)
            self._mark(out, func, found)
            return out
        if _writes(func):
            return self._written(func, args, kwargs)
        inside = _inside(func) if isinstance(func, types.FunctionType) else None
        if inside is not None:
            with self:
                return inside(*args, **kwargs)
        return self._use(func, args, kwargs, learned)

    def of_samples(self, t: Tensor) -> bool:
        if id(t) in self._learned:
            return False
        return t.requires_grad or id(t) in self._data or hasattr(t, _MARK)

    def of_single_samples(self, t: Tensor) -> bool:
        return self.of_samples(t) and not getattr(t, _MARK, False)

    def _mark(self, out: Any, func: Any, given: list[Tensor]) -> None:
        """Note that a result belongs to samples, where it does: to the whole batch, or perhaps to single ones."""
        if isinstance(out, Tensor) and _functions.is_batchedtensor(out):  # what torch.vmap runs hides its axes
            self.sends = True
        own = [t for t in given if self.of_samples(t)]
        if own and isinstance(out, Tensor | list | tuple):
            of_all = func in _REDUCES and self.size in own[0].shape
            for t in tensors(out):
                if not t.requires_grad or t.ndim == 0:
                    setattr(t, _MARK, (of_all and t.ndim == 0) or not any(map(self.of_single_samples, own)))

    def _is_learned(self, value: Any) -> bool:
        return id(value) in self._learned

    def _derive(self, out: Any, sources: Iterable[Tensor]) -> None:
        """A tensor made of parameters alone counts as a parameter."""
        names = frozenset().union(*map(self.names, sources))
        for t in tensors(out):
            if t.requires_grad:
                self._learned.setdefault(id(t), (t, names))

    def _use(self, func: Any, args: Any, kwargs: Any, learned: list[Tensor]) -> Any:
        call = Call(func, args, kwargs, self._is_learned)
        for made in _known().get(func, ()):
            kind = made.of(call)
            if kind is None:
                continue
            out = call.run(kind.instead)
            kind.instead = None
            ways = [_way(kind, [out] if isinstance(out, Tensor) else outputs(out), func)]
            return self._noted(func, learned, ways, out)
        # the parameters under another name each, so that the gradient by this use alone can be had
        own = {id(t): t.view_as(t) for t in learned}
        self._learned |= {id(own[id(t)]): (own[id(t)], self.names(t)) for t in learned}
        args, kwargs = map_tensors((args, kwargs), lambda t: own.get(id(t), t))
        call = Call(func, args, kwargs, self._is_learned)
        other, given = Other.of(call), Given(tuple(own.values()))
        assert other is not None
        # what it may write, such as running statistics, as it is now: it will be run again, and must not write again
        constants = (t for t in _tensors(args, kwargs) if not self._is_learned(t) and not self.of_samples(t))
        other.before = {id(t): t.clone() for t in constants}
        out = call.run()
        if len(outputs(out)) > 1:  # one may be made of another inside, and must not get the other's gradient too
            out = map_tensors(out, lambda t: t.view_as(t) if t.requires_grad else t)
        ways = [_way(given, given.weights), _way(other, outputs(out))]
        return self._noted(func, learned, ways, out)

    def _noted(self, func: Any, learned: Iterable[Tensor], ways: list[Way], out: Any) -> Any:
        """The result of a use, which is noted where a gradient can come back to it."""
        names = frozenset().union(*[self._learned[id(t)][1] for t in learned])
        if names and any(edge is not None for edge in ways[-1].edges):
            self.uses.append(Use(func, names, tuple(ways)))
        return out

    def _written(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that writes over its first argument: the same out of place, and then written."""
        target = args[0]
        if id(target) in self._learned:
            raise NotDifferentiable(
                "The model writes samples over a parameter in place, which per-layer gradients do not support; use "
                "gradient='forward'."
            )
        if func.__name__ not in ("add_", "sub_"):  # whose derivative does not need what they write over
            args = (target.clone(), *args[1:])
        plain = getattr(Tensor, func.__name__[:-1], None)
        if plain is None or not _known().get(plain):
            plain = _out_of_place(func)
        learned = [t for t in _tensors(args, kwargs) if id(t) in self._learned]
        target.copy_(self._use(plain, args, kwargs, learned))
        return None if func.__name__ == "__setitem__" else target


def _way(kind: Kind, outs: Iterable[Tensor], function: Any = None) -> Way:
    outs = tuple(outs)
    edges = tuple(_edge(t, function) for t in outs)
    return Way(kind, edges, tuple(t.shape for t in outs), tuple(t._version for t in kind.kept))


def _edge(t: Tensor, function: Any = None) -> GradientEdge | None:
    if not t.requires_grad:
        return None
    if function is F.linear and t._base is not None:  # what is later written over a view goes past the view's own edge
        t = t._base
    node = t.grad_fn
    return get_gradient_edge(t) if node is None else GradientEdge(node, t.output_nr)


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):  # most often, and this is called for every operation
            found.append(value)
        elif isinstance(value, list | tuple | dict):
            found += tensors(value)
    return found


def _writes(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


@cache
def _known() -> dict[Any, list[type[Kind]]]:
    """The kinds that know each function."""
    package = "metagradient.per_layer.kinds"
    found: dict[Any, list[type[Kind]]] = {}
    for name in catalog.names(package):
        kind = catalog.load(package, name)
        for function in kind.functions:  # type: ignore[attr-defined]
            found.setdefault(function, []).append(kind)
    return found


@cache
def _inside(func: types.FunctionType) -> Callable[..., Any] | None:
    """A function of torch's that is written in Python, without its own look for modes: what it calls is seen then."""
    if not func.__module__.startswith("torch.") or "has_torch_function" not in func.__globals__:
        return None
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    never = {name: lambda *_: False for name in checks if name in func.__globals__}
    names = {**func.__globals__, **never}
    made = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    made.__kwdefaults__ = func.__kwdefaults__
    return made


_NORMS = {
    torch.batch_norm: "input weight bias running_mean running_var training momentum eps",
    F.batch_norm: "input running_mean running_var weight bias training momentum eps",
}


@cache
def _out_of_place(func: Any) -> Callable[..., Any]:
    def copied(target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out = target.clone()
        func(out, *args, **kwargs)
        return out

    return copied
