"""The contract of a kind of layer: how one call of a function uses parameters, as terms of the gradient.

A `Kind` reads a `Call`; when the gradient has arrived at its output, it gives `Term`s, each enough for slopes at any
weights and for a pull. A `Place` says where the samples lie in a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
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
        """Whether the axis holds the samples and nothing else."""
        return self.outer == self.inner == 1

    def scale(self, t: Tensor, ratio: Tensor) -> Tensor:
        """Multiply each sample's entries by its ratio [B]; rounds once."""
        if self.plain:
            return matched(t * ratio.view(-1, *(1,) * (t.ndim - self.axis - 1)), t)
        factor = ratio.reshape(-1, *(1,) * (t.ndim - self.axis))
        return (self._split(t) * factor).to(t.dtype).reshape(t.shape)

    def sums(self, t: Tensor) -> Tensor:
        """The sum of each sample's entries, in at least float32."""  # [B]
        if self.plain and self.axis == 0:
            # over axes rather than over a flattened one, which would be a copy where channels are last
            dtype = torch.float32 if t.dtype in (torch.bfloat16, torch.float16) else None
            return t.sum(dim=tuple(range(1, t.ndim)), dtype=dtype) if t.ndim > 1 else in_full(t)
        return self.reduced(t, (1,) * t.ndim).reshape(self.size)

    def reduced(self, t: Tensor, shape: Sequence[int]) -> Tensor:
        """Sum each sample's entries to a shape that has 1 on the samples' axis."""  # [B, *shape]
        split, at, kept = t, self.axis, list(shape)
        if not self.plain:
            split, at, kept = self._split(t), at + 1, [*shape[:at], 1, 1, *shape[at:]]
        dims = [d for d, n in enumerate(kept) if n == 1 and d != at and split.shape[d] != 1]
        if dims:
            split = split.sum(dims, keepdim=True, dtype=torch.promote_types(t.dtype, torch.float32))
        return split.movedim(at, 0).reshape(self.size, *shape)

    def _split(self, t: Tensor) -> Tensor:
        shape = (*t.shape[: self.axis], self.outer, self.size, self.inner, *t.shape[self.axis + 1 :])
        return t.view(shape)  # to split an axis never needs a copy

    def rows(self, shape: Sequence[int]) -> Place:
        """The place in the same tensor, of this shape, with all axes but the last made one."""
        if self.axis == 0 and len(shape) == 2:
            return self
        before, after = math.prod(shape[: self.axis]), math.prod(shape[self.axis + 1 : -1])
        return Place(0, before * self.outer, self.size, self.inner * after)


class Layout(NamedTuple):
    """An axis with the samples in it; outer or inner None: as much as the axis has room for."""

    axis: int
    outer: int | None = 1
    inner: int | None = 1

    def place(self, shape: Sequence[int], size: int) -> Place | None:
        """The place in a tensor of this shape, for so many samples; None: it has none."""
        length = shape[self.axis] if self.axis < len(shape) else 0
        outer = length // size if self.outer is None else self.outer
        inner = length // (size * outer or 1) if self.inner is None else self.inner
        return Place(self.axis, outer, size, inner) if outer * size * inner == length > 0 else None


class Term:
    """The part of the losses' gradient that came through one use; subclasses write both methods."""

    weights: tuple[Tensor, ...] = ()  # parameters, or what was made of parameters alone

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        """Gradient by each of the weights of the sum of the samples' parts times their ratios [B]; None: all 1."""
        raise NotImplementedError

    def pull(self, along: Sequence[Any]) -> Tensor:
        """Each sample's part along a direction, a tensor for each of the weights; None: it does not move."""  # [B]
        raise NotImplementedError


class PerSample(Term):
    """The gradient of each sample, kept where it is small: of a bias, a scale, an added parameter."""

    def __init__(self, weight: Tensor, each: Tensor) -> None:
        self.weights, self.each = (weight,), each  # [B, *weight]

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        each = in_full(self.each)
        if ratio is None:
            return [each.sum(dim=0)]
        rows = each if each.ndim == 2 else _rows(each)
        return [torch.mv(rows.T, matched(ratio, each)).view(each.shape[1:])]

    def pull(self, along: Sequence[Any]) -> Tensor:
        each = in_full(self.each)
        if each.ndim == 2:
            return torch.mv(each, matched(along[0], each))
        return torch.mv(_rows(each), matched(along[0], each).reshape(-1))


def _rows(each: Tensor) -> Tensor:
    return each.reshape(len(each), math.prod(each.shape[1:]))


class Direct(Term):
    """A weight with the gradient g by its output; here one that has each sample's entries in a place of their own."""

    def __init__(self, weight: Tensor, g: Tensor, place: Place) -> None:
        self.weights, self.g, self.place = (weight,), g, place

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        return [self.slope(self.g if ratio is None else self.place.scale(self.g, ratio))]

    def pull(self, along: Sequence[Any]) -> Tensor:
        return self.place.sums(self.moved(along[0]) * self.g)

    def slope(self, g: Tensor) -> Tensor:
        """Gradient by the weight, for this one by the output."""
        return g.sum_to_size(self.weights[0].shape)

    def moved(self, v: Tensor) -> Tensor:
        """How the output moves with the weight."""
        return v


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


def as_given(device: str) -> AbstractContextManager[Any]:
    """Switch autocast off: products in the precision of what is multiplied."""
    # not on is the usual case on a CPU, where to enter another would take its time
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def matched(t: Tensor, like: Tensor) -> Tensor:
    """The tensor in the precision of another."""
    return t.to(like.dtype) if t.dtype != like.dtype else t


class Call(NamedTuple):
    """A function as a model calls it, with parameters and with something of the samples."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    learned: Callable[[Any], bool]  # whether an argument is a parameter, or made of parameters alone

    def read(self, names: str, **defaults: Any) -> dict[str, Any]:
        """The arguments by name; names: in the order of torch's signature."""
        return {**defaults, **dict(zip(names.split(), self.args, strict=False)), **self.kwargs}

    def run(self, instead: tuple[Tensor, Tensor] | None = None) -> Any:
        """The function's own result; instead: with the second of these in place of the first."""
        if instead is None:
            return self.function(*self.args, **self.kwargs)
        old, new = instead
        args = tuple(new if value is old else value for value in self.args)
        return self.function(*args, **{key: new if value is old else value for key, value in self.kwargs.items()})


class Kind:
    """One call of a function; a subclass names the functions it knows, reads the call, and makes terms of its gradient.

    A file of the folder `kinds` holds one; its name is the kind's.
    """

    functions: ClassVar[frozenset[Any]] = frozenset()
    weights: tuple[Tensor, ...]  # what is learned in the call
    kept: tuple[Tensor, ...] = ()  # what the terms read beside the gradient; must not change in place
    sparse = False  # whether autograd gives a sparse gradient
    instead: tuple[Tensor, Tensor] | None = None  # an argument, and what the call is to be run with in its place

    @classmethod
    def of(cls, call: Call) -> Self | None:
        """The call read as this kind; None where it is another."""
        raise NotImplementedError

    def terms(self, gradients: Sequence[Any], places: Sequence[Any]) -> list[Term]:
        """Make terms of the gradient at each output; places: where the samples lie in it."""
        return self.of_one(gradients[0], places[0])

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        """The terms of a call with one output."""
        raise NotImplementedError


class Given(Kind):
    """Parameters repeated for every sample and then used in any way: a class token, learned queries.

    The trial chooses it where every weight has the samples in a place of their own; the function does not matter.
    """

    def __init__(self, weights: tuple[Tensor, ...]) -> None:
        self.weights = weights

    def terms(self, gradients: Sequence[Any], places: Sequence[Any]) -> list[Term]:
        found = zip(self.weights, gradients, places, strict=True)
        return [Direct(w, g, place) for w, g, place in found if g is not None and place is not None]


class Product(Kind):
    """A weight that multiplies the input in some way, and a bias; subclasses write `of` and `of_one`."""

    def __init__(self, call: Call, a: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias if bias is not None and call.learned(bias) else None
        cast, kind = a, a.device.type
        if a.dtype == torch.float32 and torch.is_autocast_enabled(kind):
            cast = a.to(torch.get_autocast_dtype(kind))  # here, the product and what is kept of it share one copy
            self.instead = a, cast
        self.a: Tensor | None = cast if call.learned(weight) else None
        self.kept = () if self.a is None else (self.a,)
        self.weights = (*(() if self.a is None else (weight,)), *(() if self.bias is None else (self.bias,)))
