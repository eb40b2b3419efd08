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
from fairweight.metagradient.per_layer.kinds.other import Other, outputs
from fairweight.types import map_tensors, tensors

_MARK = "_fairweight_of_samples"
_ROUTED = "_fairweight_routed"
# Results that say which samples go where, and so differ from batch to batch: experts are given their rows by these.
_SELECTS = frozenset({
    torch.nonzero, Tensor.nonzero, torch.argwhere, Tensor.argwhere, torch.topk, Tensor.topk, torch.sort, Tensor.sort,
    torch.argsort, Tensor.argsort, torch.multinomial, Tensor.multinomial,
})  # fmt: skip
_BY_MASK = (Tensor.__getitem__, torch.masked_select, Tensor.masked_select)
_BY_NUMBER = (torch.repeat_interleave, Tensor.repeat_interleave, torch._VF._pack_padded_sequence)  # in each sample
_ROUTERS = frozenset({*_SELECTS, *_BY_MASK, *_BY_NUMBER, torch.where})
_PUTS_BACK = ("index_add", "index_put", "index_copy", "scatter", "scatter_add", "scatter_reduce", "__setitem__")


class Way(NamedTuple):
    """One reading of a use: its kind, and where the gradient arrives that its terms are made of."""

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
    routed: bool = False  # the samples' values say which of them are here, and in which order: no plan can know

    @property
    def signature(self) -> tuple[Any, ...]:
        """What a plan for one pass must find again in another."""
        ranks = tuple(tuple(len(s) for s in way.shapes) for way in self.ways)
        return self.function, self.names, tuple(type(way.kind) for way in self.ways), ranks, self.routed


class Observer(TorchFunctionMode):
    """While it is entered, notes every use of these parameters; functions give what they give without it.

    data: what a model is called with; whatever is made of it belongs to samples. What is made of parameters and
    constants alone, such as a transposed, normalised or merged matrix, counts as a parameter itself.
    """

    def __init__(self, parameters: Parameters, data: Any, frozen: Switch | None = None) -> None:
        """frozen: holds the statistics of batch norm constant on the way back while it is on."""
        super().__init__()
        self.frozen, self.parameters = frozen, parameters
        self.uses: list[Use] = []
        self._routes = False  # whether samples have been sent anywhere by their values
        self._learned = {id(p): (p, frozenset({name})) for name, p in parameters.items()}
        self._data = {id(t): t for t in tensors(data)}
        self._sizes = {len(t) for t in self._data.values() if t.ndim}

    @property
    def signature(self) -> Any:
        """What two passes must have in common to be read alike."""
        return tuple(use.signature for use in self.uses)

    def names(self, weight: Tensor) -> frozenset[str]:
        """The parameters that a weight is made of."""
        return self._learned[id(weight)][1]

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._routes and func not in _ROUTERS:
            return self._seen(func, args, kwargs)
        given = _tensors(args, kwargs)
        uneven = func in _BY_MASK and any(map(self._uneven, given[1:]))
        if func in _BY_NUMBER:
            numbers = kwargs.get("repeats", args[min(1, len(args) - 1)])
            uneven = isinstance(numbers, Tensor) and bool((numbers != numbers.flatten()[:1]).any())
        selects = func in _SELECTS or uneven or (func is torch.where and len(args) == 1)
        sources = given[:1] if func.__name__.rstrip("_") in _PUTS_BACK else given
        routed = (selects and any(map(self._of_samples, given))) or any(hasattr(t, _ROUTED) for t in sources)
        self._routes |= routed
        out = self._seen(func, args, kwargs)
        for t in tensors(out) if routed and isinstance(out, Tensor | list | tuple) else ():
            if uneven or not selects or not t.requires_grad:  # values that were sorted are still their samples'
                setattr(t, _ROUTED, True)
        return out

    def _uneven(self, index: Tensor) -> bool:
        """Whether a mask picks from some samples more than from others."""
        if index.dtype != torch.bool or index.ndim == 0:
            return False
        picked = index.flatten(1).sum(dim=1) if index.ndim > 1 else index
        return len(index) not in self._sizes or not bool((picked == picked[:1]).all())

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
            if isinstance(out, Tensor) and out.requires_grad:  # what has a gradient is the samples' without a mark
                return out
            return _mark(out) if any(map(self._of_samples, found)) else out
        if not any(map(self._of_samples, found)):
            out = func(*args, **kwargs)
            self._derive(args[0] if _writes(func) else out, learned)
            return out
        if not torch.is_grad_enabled():
            return _mark(func(*args, **kwargs))
        if _writes(func):
            return self._written(func, args, kwargs)
        inside = _inside(func) if isinstance(func, types.FunctionType) else None
        if inside is not None:
            with self:
                return inside(*args, **kwargs)
        return self._use(func, args, kwargs, learned)

    def _of_samples(self, t: Tensor) -> bool:
        if id(t) in self._learned:
            return False
        return t.requires_grad or id(t) in self._data or hasattr(t, _MARK)

    def _is_learned(self, value: Any) -> bool:
        return id(value) in self._learned

    def _derive(self, out: Any, sources: Iterable[Tensor]) -> None:
        """What parameters alone were made into counts as one."""
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
            ways = [_way(kind, [out] if isinstance(out, Tensor) else outputs(out))]
            return self._noted(func, learned, ways, out, _tensors(args, kwargs) if self._routes else ())
        # the parameters under another name each, so that the gradient by this use alone can be had
        own = {id(t): t.view_as(t) for t in learned}
        self._learned |= {id(own[id(t)]): (own[id(t)], self.names(t)) for t in learned}
        args, kwargs = map_tensors((args, kwargs), lambda t: own.get(id(t), t))
        call = Call(func, args, kwargs, self._is_learned)
        other, given = Other.of(call), Given(tuple(own.values()))
        assert other is not None
        # what it may write, such as running statistics, as it is now: it will be run again, and must not write again
        constants = (t for t in _tensors(args, kwargs) if not self._is_learned(t) and not self._of_samples(t))
        other.before = {id(t): t.clone() for t in constants}
        out = call.run()
        if len(outputs(out)) > 1:  # one may be made of another inside, and must not get the other's gradient too
            out = map_tensors(out, lambda t: t.view_as(t) if t.requires_grad else t)
        ways = [_way(given, given.weights), _way(other, outputs(out))]
        return self._noted(func, learned, ways, out, _tensors(args, kwargs))

    def _noted(
        self, func: Any, learned: Iterable[Tensor], ways: list[Way], out: Any, given: Iterable[Tensor] = ()
    ) -> Any:
        """The result of a use, which is noted where a gradient can come back to it."""
        names = frozenset().union(*[self._learned[id(t)][1] for t in learned])
        if names and any(edge is not None for edge in ways[-1].edges):
            routed = self._routes and any(hasattr(t, _ROUTED) for t in given)
            self.uses.append(Use(func, names, tuple(ways), routed))
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


def _way(kind: Kind, outs: Iterable[Tensor]) -> Way:
    outs = tuple(outs)
    edges = tuple(_edge(t) for t in outs)
    return Way(kind, edges, tuple(t.shape for t in outs), tuple(t._version for t in kind.kept))


def _edge(t: Tensor) -> GradientEdge | None:
    if not t.requires_grad:
        return None
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


def _mark(out: Any) -> Any:
    """Note that a result without a gradient belongs to samples."""
    for t in tensors(out) if isinstance(out, Tensor | list | tuple) else ():
        if not t.requires_grad:
            setattr(t, _MARK, True)
    return out


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
