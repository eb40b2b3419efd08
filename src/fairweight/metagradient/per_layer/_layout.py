"""Where the samples lie in a tensor, and how that is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

UNKNOWN, MIXED = -1, -2  # of an entry: no gradient says whose it is; the gradients of several samples meet in it


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
        before = _product(shape[: self.axis])
        after = _product(shape[self.axis + 1 : -1])
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


def candidates(shape: Sequence[int], size: int) -> Iterator[Layout]:
    """Every way to lay so many samples out in this shape, the usual ones first."""
    for axis, length in enumerate(shape):
        if length == size:
            yield Layout(axis)
    for axis, length in enumerate(shape):
        if length % size or length == size:
            continue
        rest = length // size
        yield Layout(axis, 1, None)
        yield Layout(axis, None, 1)
        for inner in range(2, rest):
            if rest % inner == 0:
                yield Layout(axis, rest // inner, inner)


def find(owners: Tensor, size: int) -> Layout | None:
    """The first layout that says of every entry what its gradients say: owners holds samples, UNKNOWN or MIXED."""
    if bool((owners == MIXED).any()):
        return None
    for layout in candidates(owners.shape, size):
        place = layout.place(owners.shape, size)
        assert place is not None
        index = torch.arange(owners.shape[place.axis], device=owners.device) // place.inner % size
        index = index.reshape(-1, *(1,) * (owners.ndim - place.axis - 1))
        if bool(((owners == index) | (owners == UNKNOWN)).all()):
            return layout
    return None


def masks(size: int, like: Tensor) -> list[Tensor]:
    """One mask of the samples for each binary digit of their numbers from 1."""  # [B] each
    numbers = torch.arange(1, size + 1, device=like.device)
    return [(numbers // 2**k % 2).to(like.dtype) for k in range(size.bit_length())]


def owners(whole: Tensor, masked: Sequence[Tensor | None]) -> Tensor:
    """Whose each entry is, from its gradient by all losses and by those that each mask leaves in."""
    size = whole.abs()
    clear = size > size.max() * (1e-3 if whole.dtype in (torch.float32, torch.float64) else 2e-2)
    number = torch.zeros(whole.shape, dtype=torch.int64, device=whole.device)
    mixed = torch.zeros_like(clear)
    for k, part in enumerate(masked):
        if part is None:
            continue
        share = torch.where(clear, part.double() / whole.double(), torch.zeros_like(whole, dtype=torch.float64))
        number += (share > 0.5).long() * 2**k
        mixed |= ((share - share.round()).abs() > 0.1) | (share.round().abs() > 1) | (share < -0.5)
    found = torch.where(clear & (number > 0), number - 1, torch.full_like(number, UNKNOWN))
    return torch.where(clear & (mixed | (number == 0)), torch.full_like(number, MIXED), found)


def _product(numbers: Sequence[int]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total
