"""Whether a pass may send samples elsewhere by values: then what a plan says of their places is checked in that pass.

Where samples lie is found on a few of them, and holds for others unless values decide it: numbers, masks or lengths
that pick entries from the samples' axis, or values of single samples that a model reads into Python, where they may
become a slice or an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

_COUNTED = "_fairweight_counted"  # of a tensor: its version, while it is 0, 1, 2, …


class Routes:
    """What the functions of one pass do with its samples; subclasses say which tensors are made of them."""

    size: int  # number of samples
    sends = False  # whether samples may have been sent elsewhere
    _reads = False  # whether numbers of the whole batch were read

    def of_samples(self, t: Tensor) -> bool:
        """Whether a tensor is made of samples."""
        raise NotImplementedError

    def of_single_samples(self, t: Tensor) -> bool:
        """Whether a tensor is made of samples and is not a number of the whole batch, such as its largest length."""
        raise NotImplementedError

    def look(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note what a call of one of the functions that are `watched` may do."""
        names, may_send = watched()[func]
        if not self.sends and self.size > 1:
            given = dict(zip(names, args, strict=False)) | {_OTHER_NAMES.get(key, key): v for key, v in kwargs.items()}
            self.sends = may_send(self, {"input": out, **given, "out": out})

    def _in_the_way(self, t: Any) -> bool:
        """Whether a gradient goes back through these samples: where none does, they may lie anywhere."""
        return isinstance(t, Tensor) and t.requires_grad and self.of_samples(t)

    def _may_hold(self, shape: Sequence[int], axis: int) -> bool:
        """Whether samples may lie in the axis: in the first, unless its length says that they do not."""
        return shape[axis] % self.size == 0 and (axis == 0 or shape[0] % self.size != 0)

    def read(self, given: dict[str, Any]) -> bool:
        """Values that leave for Python; those of the whole batch matter where Python cuts the samples' axis."""
        self._reads |= self.of_samples(given["input"])
        return self.of_single_samples(given["input"])

    def indexed(self, given: dict[str, Any]) -> bool:
        """Square brackets, to take or to put."""
        target, index = given["input"], given.get("index")
        if not self._in_the_way(given.get("source", target)):
            return False
        items = list(_axes(index if isinstance(index, tuple) else (index,), target.ndim))
        if any(self._everybody(item) and target.shape[axis] == self.size for axis, item in items):
            return False  # each sample's own, as in h[arange(B), last]
        return any(self._picks(item, target.shape, axis) for axis, item in items)

    def _everybody(self, item: Any) -> bool:
        """Whether it is 0, 1, 2, … to the number of samples."""
        return isinstance(item, Tensor) and getattr(item, _COUNTED, None) == item._version and len(item) == self.size

    def _picks(self, item: Any, shape: Sequence[int], axis: int) -> bool:
        """Whether one of the items in square brackets may pick samples by values."""
        if isinstance(item, slice):
            ends = [end for end in (item.start, item.stop) if end is not None]
            if any(isinstance(end, Tensor) and self.of_single_samples(end) for end in ends):
                return True
            return self._reads and bool(ends) and self._may_hold(shape, axis)
        return (self._reads or not isinstance(item, int)) and self._may_hold(shape, axis)

    def along(self, given: dict[str, Any]) -> bool:
        """An axis whose entries are taken, put or put in order."""
        target, axis = given["input"], given.get("dim", -1)
        if axis is None or target.ndim == 0:  # of all entries
            return self._in_the_way(target)
        return self._in_the_way(given.get("source", target)) and self._may_hold(target.shape, axis % target.ndim)

    def cut(self, given: dict[str, Any]) -> bool:
        """An axis that Python cuts, perhaps where a number that it has read says."""
        dim = given.get("dim", 0)
        return self._reads and isinstance(dim, int) and self.along({**given, "dim": dim})

    def picked(self, given: dict[str, Any]) -> bool:
        """Entries taken or put by a mask, or as many of each sample as a tensor says."""
        return isinstance(given.get("by"), Tensor) and self._in_the_way(given.get("source", given["input"]))

    def multiplied(self, given: dict[str, Any]) -> bool:
        """Samples, [B, n], in sums that others say, such as a matrix that gives each expert its own."""
        target, left = given["input"], given.get("left")
        by_samples = isinstance(left, Tensor) and self.of_samples(left)
        return by_samples and target.ndim == 2 and self.along({"input": target, "dim": 0})

    def counted(self, given: dict[str, Any]) -> bool:
        """Numbers in order, which everybody's own are among."""
        if not given.keys() & {"start", "step"}:
            setattr(given["out"], _COUNTED, given["out"]._version)
        return False


Look = Callable[[Routes, dict[str, Any]], bool]
# names of functions: names of their arguments, and how a call is looked at
_LOOKS: dict[str, tuple[str, Look]] = {
    "item tolist numpy __array__ __int__ __float__ __complex__ __bool__ __index__": ("input", Routes.read),
    "__getitem__ __setitem__ index_put": ("input index source", Routes.indexed),
    "index_select gather index_add index_copy index_reduce": ("input dim index source", Routes.along),
    "scatter scatter_add scatter_reduce": ("input dim index source", Routes.along),
    "take_along_dim": ("input index dim", Routes.along),
    "split split_with_sizes": ("input sizes dim", Routes.cut),
    "roll": ("input shifts dim", Routes.cut),
    "narrow": ("input dim", Routes.cut),
    "sort": ("input dim", Routes.along),
    "topk": ("input k dim", Routes.along),
    "take": ("input by", Routes.picked),
    "masked_select masked_scatter": ("input by source", Routes.picked),
    "repeat_interleave tensor_split _pack_padded_sequence _pad_packed_sequence": ("input by", Routes.picked),
    "segment_reduce": ("input reduce", Routes.picked),
    "matmul mm": ("left input", Routes.multiplied),
    "arange": ("end start step", Routes.counted),
}
_OTHER_NAMES = {
    **dict.fromkeys(("src", "value", "values"), "source"),
    **dict.fromkeys(("mask", "repeats", "lengths", "offsets"), "by"),
    **{"dims": "dim", "indices": "index", "other": "input", "mat2": "input"},
}


@cache
def watched() -> dict[Any, tuple[tuple[str, ...], Look]]:
    """The functions to look at, each with the names of its arguments."""
    found = {}
    for functions, (names, look) in _LOOKS.items():
        for function in functions.split():
            for owner in (torch, Tensor, torch._VF):
                for name in (function, f"{function}_"):
                    if (known := getattr(owner, name, None)) is not None:
                        found[known] = tuple(names.split()), look
    return found


def _axes(items: tuple[Any, ...], ndim: int) -> Iterator[tuple[int, Any]]:
    """What is in square brackets, each with the axis that it is for."""
    axis, widths = 0, [_width(item) for item in items]
    for item, width in zip(items, widths, strict=True):
        if item is Ellipsis:
            axis += ndim - sum(widths)
        elif width:
            yield axis, item
            axis += width


def _width(item: Any) -> int:
    """How many axes it takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype == torch.bool else 1
