"""Whether a pass may send samples elsewhere, or to each other: then what a plan says of places is checked in that pass.

Where samples lie is found on a few of them, and holds for others unless values decide it: numbers, masks or lengths
that pick entries from the samples' axis, values of single samples that a model reads into Python, where they may become
a slice or an order, or factors that let another sample's entries through, which lie beside one's own once samples were
turned round, cut, summed or multiplied with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_COUNTED = "_fairweight_counted"  # of a tensor: its version, while it is 0, 1, 2, …


class Routes:
    """What the functions of one pass do with its samples; subclasses say which tensors are made of them."""

    size: int  # number of samples
    frozen: Any = None  # not None: batch norm lets no gradient go from sample to sample
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
        return isinstance(t, Tensor) and t.requires_grad and self.of_samples(t) and torch.is_grad_enabled()

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
        """Whether it counts 0, 1, 2, … up to the number of samples."""
        return isinstance(item, Tensor) and getattr(item, _COUNTED, None) == item._version and len(item) == self.size

    def _picks(self, item: Any, shape: Sequence[int], axis: int) -> bool:
        """Whether one of the items in square brackets may pick samples by values."""
        if not isinstance(item, slice):
            return self._may_hold(shape, axis)
        ends = [end for end in (item.start, item.stop) if end is not None]
        if any(isinstance(end, Tensor) and self.of_single_samples(end) for end in ends):
            return True
        if not (ends or item.step) or not self._may_hold(shape, axis):
            return False
        return self._reads or not self._in_whole(*item.indices(shape[axis]), step=item.step)

    def _in_whole(self, *ends: int, step: int | None = None) -> bool:
        """Whether each piece of a cut at these holds every sample once, as in two batches end to end."""
        return step in (None, 1) and all(end % self.size == 0 for end in ends[:2])

    def along(self, given: dict[str, Any]) -> bool:
        """An axis, or several, whose entries are taken, put, put in order or summed."""
        target, axis = given["input"], given.get("dim", -1)
        if isinstance(axis, Tensor):  # the larger of two, entry by entry
            return False
        if axis is None or axis == () or target.ndim == 0:  # of all entries
            return self._in_the_way(target)
        axes = axis if isinstance(axis, tuple | list) else (axis,)
        held = any(self._may_hold(target.shape, a % target.ndim) for a in axes)
        return held and self._in_the_way(given.get("source", target))

    def over(self, given: dict[str, Any]) -> bool:
        """An axis, or all if none is named."""
        return self.along({"dim": None, **given})

    def turned(self, given: dict[str, Any]) -> bool:
        """Axes turned round, given as several numbers or as one list."""
        several = [given[key] for key in ("dim", "second", "third") if isinstance(given.get(key), int)]
        return self.along({**given, "dim": several or given.get("dim", 0)})

    def cut(self, given: dict[str, Any]) -> bool:
        """An axis that Python cuts, perhaps where a number that it has read says."""
        dim, sizes = given.get("dim", 0), given.get("sizes", 1)
        if not isinstance(dim, int) or not self.along({**given, "dim": dim}):
            return False
        if "pieces" in given:
            sizes = -(-given["input"].shape[dim] // given["pieces"])
        sizes = sizes if isinstance(sizes, tuple | list) else (sizes,)
        return self._reads or not all(self._in_whole(size) for size in sizes)

    def narrowed(self, given: dict[str, Any]) -> bool:
        """A piece of an axis."""
        return self.cut({**given, "sizes": (given["start"], given["length"])})

    def picked(self, given: dict[str, Any]) -> bool:
        """Entries taken or put by a mask, or as many of each sample as a tensor says."""
        return isinstance(given.get("by"), Tensor) and self._in_the_way(given.get("source", given["input"]))

    def split_by(self, given: dict[str, Any]) -> bool:
        """Pieces of an axis, with their number or their ends."""
        return self.picked(given) or (not isinstance(given.get("by"), Tensor) and self.cut(given))

    def multiplied(self, given: dict[str, Any]) -> bool:
        """Samples in the sums of a product of two matrices: those of others, or in each other's rows."""
        left, right = given.get("left"), given["input"]
        if not isinstance(left, Tensor) or not isinstance(right, Tensor) or right.ndim != 2:
            return False
        pairs = self.of_samples(left) and self._in_the_way(right)
        summed = left.ndim == 2 and self._in_the_way(left) and self._may_hold(left.shape, 1)
        return pairs or summed or self.along({"input": right, "dim": 0})

    def in_letters(self, given: dict[str, Any]) -> bool:
        """torch.einsum: samples under two letters, or under one that is summed over."""
        if not isinstance(given["input"], str):  # letters as numbers
            return self._in_the_way(given["input"])
        operands = [given.get(key) for key in ("first", "second", "third")]
        operands = [*operands[0], *operands[1:]] if isinstance(operands[0], tuple | list) else operands
        terms, _, result = given["input"].replace(" ", "").partition("->")
        letters = {
            letter
            for term, t in zip(terms.split(","), operands, strict=False)
            if t is not None and self._in_the_way(t) and "." not in term
            for axis, letter in enumerate(term)
            if self._may_hold(t.shape, axis)
        }
        return len(letters) > 1 or not letters <= set(result)

    def attended(self, given: dict[str, Any]) -> bool:
        """Attention in which samples may be the rows that are compared."""
        return self.along({"input": given["input"], "dim": -2})

    def normed(self, given: dict[str, Any]) -> bool:
        """Batch norm by the statistics of the batch."""
        return bool(given.get("training")) and self.frozen is None and self._in_the_way(given["input"])

    def counted(self, given: dict[str, Any]) -> bool:
        """Numbers in order, such as the samples' own places."""
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
    "chunk": ("input pieces dim", Routes.cut),
    "unbind select": ("input dim", Routes.cut),
    "__iter__ __reversed__": ("input", Routes.cut),
    "narrow": ("input dim start length", Routes.narrowed),
    "roll": ("input shifts dim", Routes.over),
    "flip rot90": ("input dim second third", Routes.turned),
    "flipud": ("input", Routes.cut),
    "sort mode unfold": ("input dim", Routes.along),
    "topk kthvalue diff cosine_similarity": ("input k dim", Routes.along),
    "mean sum amax amin max min prod std var std_mean var_mean median": ("input dim", Routes.over),
    "nanmean nansum nanmedian aminmax logsumexp logcumsumexp cumsum cumprod cummax cummin": ("input dim", Routes.over),
    "softmax log_softmax softmin gumbel_softmax": ("input dim", Routes.over),
    "norm vector_norm normalize quantile nanquantile renorm": ("input order dim", Routes.over),
    "cdist matmul mm": ("left input", Routes.multiplied),
    "einsum": ("input first second third", Routes.in_letters),
    "batch_norm": ("input a b c d training", Routes.normed),
    "scaled_dot_product_attention": ("input", Routes.attended),
    "take": ("input by", Routes.picked),
    "masked_select masked_scatter": ("input by source", Routes.picked),
    "tensor_split": ("input by dim", Routes.split_by),
    "repeat_interleave _pack_padded_sequence _pad_packed_sequence": ("input by", Routes.picked),
    "segment_reduce": ("input reduce", Routes.picked),
    "arange": ("end start step", Routes.counted),
}
_OF_NN = (
    "softmax",
    "log_softmax",
    "softmin",
    "gumbel_softmax",
    "normalize",
    "batch_norm",
    "scaled_dot_product_attention",
)
_OTHER_NAMES = {
    **dict.fromkeys(("src", "value", "values"), "source"),
    **dict.fromkeys(("mask", "repeats", "lengths", "offsets"), "by"),
    **{"dims": "dim", "dimension": "dim", "query": "input", "indices": "index", "other": "input", "mat2": "input"},
}


@cache
def watched() -> dict[Any, tuple[tuple[str, ...], Look]]:
    """The functions to look at, each with the names of its arguments."""
    found = {}
    for functions, (names, look) in _LOOKS.items():
        for function in functions.split():
            for owner in (torch, Tensor, torch._VF, torch.linalg, torch.special, *((F,) if function in _OF_NN else ())):
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
