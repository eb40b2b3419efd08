"""What is left of a use of parameters after the backward pass: enough for slopes at any weights, and for a pull."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fairweight.metagradient.passes import in_full
from fairweight.metagradient.per_layer._layout import Place


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
    """What autocast hands to a product: done here, the product and what is kept of it share one copy."""
    kind = a.device.type
    if a.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return a.to(torch.get_autocast_dtype(kind))
    return a
