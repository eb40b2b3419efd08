"""The contract of a kind of layer: how one call of a function uses parameters, and what is left of it.

A `Kind` reads a `Call`; when the gradient has arrived at its output, it gives `Term`s, each enough for slopes at any
weights and for a pull. A `Place` says where the samples lie in a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from fairweight.metagradient.passes import in_full


class Place(NamedTuple):
    """The samples of a tensor: one of its axes reads [outer, B, inner]."""

    axis: int
    outer: int
    size: int
    inner: int

    @property
    def plain(self) -> bool:
        """Whether the axis is the samples'."""
        return self.outer == self.inner == 1

    def scale(self, t: Tensor, ratio: Tensor) -> Tensor:
        """Each sample's entries times its ratio [B], rounded once."""
        if self.plain:
            return (t * ratio.reshape(-1, *(1,) * (t.ndim - self.axis - 1))).to(t.dtype)
        split = self._split(t)
        factor = ratio.reshape(-1, *(1,) * (t.ndim - self.axis))
        return (split * factor).to(t.dtype).reshape(t.shape)

    def sums(self, t: Tensor) -> Tensor:
        """The sum of each sample's entries, in at least float32."""  # [B]
        if self.plain and self.axis == 0:
            dtype = torch.promote_types(t.dtype, torch.float32)
            # over axes rather than over a flattened one, which would be a copy where channels are last
            return t.sum(dim=list(range(1, t.ndim)), dtype=dtype) if t.ndim > 1 else t.to(dtype)
        return self.reduced(t, (1,) * t.ndim).reshape(self.size)

    def reduced(self, t: Tensor, shape: Sequence[int]) -> Tensor:
        """Each sample's entries summed to a shape that has 1 on the samples' axis."""  # [B, *shape]
        split, at = t, self.axis
        kept = list(shape)
        if not self.plain:
            split = self._split(t)
            at = self.axis + 1
            kept = [*shape[: self.axis], 1, 1, *shape[self.axis :]]
        dims = [d for d, n in enumerate(kept) if n == 1 and d != at and split.shape[d] != 1]
        if dims:
            split = split.sum(dims, keepdim=True, dtype=torch.promote_types(t.dtype, torch.float32))
        return split.movedim(at, 0).reshape(self.size, *shape)

    def _split(self, t: Tensor) -> Tensor:
        shape = (*t.shape[: self.axis], self.outer, self.size, self.inner, *t.shape[self.axis + 1 :])
        return t.view(shape)  # to split an axis never needs a copy

    def rows(self, shape: Sequence[int]) -> Place:
        """The place in the same tensor, of this shape, with all axes but the last made one."""
        before = math.prod(shape[: self.axis])
        after = math.prod(shape[self.axis + 1 : -1])
        return Place(0, before * self.outer, self.size, self.inner * after)


@dataclass(frozen=True)
class Layout:
    """An axis with the samples in it; outer or inner None: as much as the axis has room for."""

    axis: int
    outer: int | None = 1
    inner: int | None = 1

    def place(self, shape: Sequence[int], size: int) -> Place | None:
        """The place in a tensor of this shape, for so many samples; None: it has none."""
        if self.axis >= len(shape):
            return None
        length = shape[self.axis]
        outer, inner = self.outer, self.inner
        if outer is None:
            outer = length // size
        elif inner is None:
            inner = length // (size * outer)
        assert inner is not None
        return Place(self.axis, outer, size, inner) if outer * size * inner == length and length > 0 else None


class Term:
    """The part of the losses' gradient that came through one use; subclasses write both methods."""

    weights: tuple[Tensor, ...]  # parameters, or what was made of parameters alone

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        """Gradient by each of the weights of the sum of the samples' parts times their ratios [B]; None: all 1."""
        raise NotImplementedError

    def pull(self, along: Sequence[Tensor | None]) -> Tensor:
        """Each sample's part along a direction, given for each of the weights; None: it does not move."""  # [B]
        raise NotImplementedError


class PerSample(Term):
    """Each sample's own gradient, where that is small: of a bias, a scale, an added parameter."""

    def __init__(self, weight: Tensor, each: Tensor) -> None:
        self.weights, self.each = (weight,), each  # [B, *weight]

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        each = in_full(self.each)
        if ratio is None:
            return [each.sum(dim=0)]
        return [torch.mv(_rows(each).T, ratio.to(each.dtype)).view(each.shape[1:])]

    def pull(self, along: Sequence[Tensor | None]) -> Tensor:
        (v,) = along
        assert v is not None
        each = in_full(self.each)
        return torch.mv(_rows(each), v.reshape(-1).to(each.dtype))


def _rows(each: Tensor) -> Tensor:
    return each if each.ndim == 2 else each.reshape(len(each), math.prod(each.shape[1:]))


class Direct(Term):
    """A weight that has each sample's entries in a place of their own, and the gradient there."""

    def __init__(self, weight: Tensor, g: Tensor, place: Place) -> None:
        self.weights, self.g, self.place = (weight,), g, place

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        g = self.g if ratio is None else self.place.scale(self.g, ratio)
        return [g.sum_to_size(self.weights[0].shape)]

    def pull(self, along: Sequence[Tensor | None]) -> Tensor:
        (v,) = along
        assert v is not None
        return self.place.sums(self.g * v)


def broadcast(weight: Tensor, g: Tensor, place: Place, shape: Sequence[int] | None = None) -> Term:
    """The term of a weight that was broadcast to g's shape, where g is the gradient by the broadcast one.

    shape: the weight's axes before they were broadcast, where they are not its own.
    """
    if shape is None and place.plain and place.axis == 0 and g.shape[1:] == weight.shape:
        return PerSample(weight, g)  # one row each: the usual bias
    shape = tuple(weight.shape) if shape is None else tuple(shape)
    aligned = (1,) * (g.ndim - len(shape)) + shape
    if aligned[place.axis] == 1:
        return PerSample(weight, place.reduced(g, aligned).reshape(place.size, *weight.shape))
    return Direct(weight, g, place)


@contextmanager
def as_given(device: str) -> Iterator[None]:
    """Without autocast: products in the precision of what is multiplied."""
    if not torch.is_autocast_enabled(device):  # the usual case on a CPU, where entering it would take its time
        yield
        return
    with torch.autocast(device, enabled=False):
        yield


def matched(t: Tensor, like: Tensor) -> Tensor:
    """In the precision of another tensor."""
    return t.to(like.dtype) if t.dtype != like.dtype else t


def cast_as_autocast_does(a: Tensor) -> Tensor:
    """What autocast hands to a product."""
    kind = a.device.type
    if a.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return a.to(torch.get_autocast_dtype(kind))
    return a


class Call(NamedTuple):
    """A function as a model calls it, with parameters and with something of the samples."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    learned: Callable[[Any], bool]  # whether an argument is a parameter, or made of parameters alone

    def run(self) -> Any:
        """The function's own result."""
        return self.function(*self.args, **self.kwargs)

    def read(self, names: str, **defaults: Any) -> dict[str, Any]:
        """The arguments by name; names: in the order of torch's signature."""
        return {**defaults, **dict(zip(names.split(), self.args, strict=False)), **self.kwargs}

    def run_with(self, old: Tensor, new: Tensor) -> Any:
        """The same with one argument in place of another."""
        args = tuple(new if value is old else value for value in self.args)
        return self.function(*args, **{key: new if value is old else value for key, value in self.kwargs.items()})


class Kind:
    """One call; subclasses say which functions they know, read the call, and make terms of the gradient.

    A file of the folder `kinds` holds one; its name is the kind's.
    """

    functions: ClassVar[frozenset[Any]] = frozenset()
    call: Call | None  # until it has run: its arguments are not to be held longer than the model holds them
    weights: tuple[Tensor, ...]  # what is learned in the call
    kept: tuple[Tensor, ...] = ()  # what the terms read beside the gradient, and nobody may change in place

    @classmethod
    def of(cls, call: Call) -> Self | None:
        """The call read as this kind; None: it is none."""
        raise NotImplementedError

    def run(self) -> Any:
        """The function's own result; once."""
        assert self.call is not None
        call, self.call = self.call, None
        return call.run()

    def terms(self, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> list[Term]:
        """From the gradient that arrived at each output, and where the samples lie in it."""
        (g,), (place,) = gradients, places
        assert g is not None
        assert place is not None
        return self.of_one(g, place)

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        """The terms of a call with one output."""
        raise NotImplementedError


class Product(Kind):
    """A weight that multiplies the input in some way, and a bias; subclasses write `of` and `of_one`."""

    def __init__(self, call: Call, a: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.call, self.weight, self.given = call, weight, a
        self.bias = bias if bias is not None and call.learned(bias) else None  # if it is learned
        # cast here, the product and what is kept of it share one copy
        self.a: Tensor | None = cast_as_autocast_does(a)
        of_weight = call.learned(weight)
        self.kept = (self.a,) if of_weight else ()
        self.weights = (*((weight,) if of_weight else ()), *(() if self.bias is None else (self.bias,)))

    def run(self) -> Any:
        assert self.call is not None
        assert self.a is not None
        call, self.call = self.call, None
        out = call.run() if self.a is self.given else call.run_with(self.given, self.a)
        del self.given
        self.a = self.kept[0] if self.kept else None
        return out
