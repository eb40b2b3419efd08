"""Whether a pass may send samples elsewhere, or to each other: then what a plan says of places is checked in that pass.

Where samples lie is found on a few of them, and holds for others unless values decide it: numbers, masks or lengths
that pick entries from the samples' axis, values of single samples that a model reads into Python, where they may become
a slice or an order, or factors that let another sample's entries through, which lie beside one's own once samples were
turned round, cut, summed or multiplied with each other. A function that is not known to leave samples apart may do
anything with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fairweight.types import tensors

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

    def look(self, watch: Watch, args: Any, kwargs: Any, out: Any) -> None:
        """Note what a call of a function that is to be watched may do."""
        names, may_send = watch
        if not self.sends and self.size > 1:
            given = {"input": out, **dict(zip(names, args, strict=False))}
            if kwargs:
                given |= {_OTHER_NAMES.get(key, key): v for key, v in kwargs.items()}
            given["out"] = out
            self.sends = may_send(self, given)

    def _in_the_way(self, t: Any) -> bool:
        """Whether a gradient goes back through these samples: where none does, they may lie anywhere."""
        return isinstance(t, Tensor) and t.requires_grad and self.of_samples(t) and torch.is_grad_enabled()

    def _may_hold(self, shape: Sequence[int], axis: int) -> bool:
        """Whether samples may lie in the axis: in the first, unless its length says that they do not."""
        return shape[axis] % self.size == 0 and (axis == 0 or shape[0] % self.size != 0)

    def _axis(self, shape: Sequence[int], ndim: int) -> int | None:
        """Where samples may lie in this shape, among so many axes."""
        first = ndim - len(shape)
        return next((first + k for k, length in enumerate(shape) if length and not length % self.size), None)

    def unknown(self, given: dict[str, Any]) -> bool:
        """Any other function: it may do anything with samples."""
        out = given["out"]
        into = [value for key, value in given.items() if key != "out" and not (key == "input" and value is out)]
        return any(t.requires_grad for t in tensors(out)) and any(map(self._in_the_way, tensors(into)))

    def broadcast(self, given: dict[str, Any]) -> bool:
        """Entry by entry, where samples may lie in one axis here and in another there."""
        shape = getattr(given["out"], "shape", ())
        others = [t for t in given.values() if isinstance(t, Tensor) and t.shape != shape and self._in_the_way(t)]
        return any(self._axis(t.shape, len(shape)) not in (None, self._axis(shape, len(shape))) for t in others)

    def reshaped(self, given: dict[str, Any]) -> bool:
        """Entries in other axes, where a sample's may not stay side by side."""
        before, after = given["input"].shape, given["out"].shape
        axis = self._axis(before, len(before))
        if axis is None or before[: axis + 1] == after[: axis + 1] or not self._in_the_way(given["input"]):
            return False
        inner, times = math.prod(before[axis + 1 :]), before[axis] // self.size
        steps = [(length, math.prod(after[k + 1 :])) for k, length in enumerate(after)]
        return not any(
            length and own % step == 0 and length % (own // step * self.size) == 0
            for own in (inner, inner * times)
            for length, step in steps
        )

    def each(self, given: dict[str, Any]) -> bool:
        """A layer that takes every entry of the first axis by itself."""
        return any(t.ndim == 0 or len(t) % self.size for t in tensors(given) if self._in_the_way(t))

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

    def compared(self, given: dict[str, Any]) -> bool:
        """Rows that are compared along an axis, each with its own or, where the shapes differ, with several."""
        return self.unknown(given) and (given["input"].shape != given["second"].shape or self.along(given))

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

    def repeated(self, given: dict[str, Any]) -> bool:
        """Entries as often each as a tensor says."""
        return isinstance(given.get("by"), Tensor) and self._in_the_way(given["input"])

    def multiplied(self, given: dict[str, Any]) -> bool:
        """Samples in the sums of a product of two matrices: those of others, or in each other's rows."""
        left, right = given.get("left"), given["input"]
        if not isinstance(left, Tensor) or not isinstance(right, Tensor):
            return False
        if right.ndim != 2:
            return self.along({"input": left}) or self.along({"input": right, "dim": (-1, -2)[: right.ndim]})
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
Watch = tuple[tuple[str, ...], Look]
# names of functions, without the number of axes: names of their arguments, and how a call is looked at, if it is
_LOOKS: dict[str, tuple[str, Look | None]] = {
    "item tolist numpy __array__ __int__ __float__ __complex__ __bool__ __index__": ("input", Routes.read),
    "__getitem__ __setitem__ index_put": ("input index source", Routes.indexed),
    "index_select gather index_add index_copy index_reduce": ("input dim index source", Routes.along),
    "scatter scatter_add scatter_reduce": ("input dim index source", Routes.along),
    "take_along_dim": ("input index dim", Routes.along),
    "split split_with_sizes": ("input sizes dim", Routes.cut),
    "chunk": ("input pieces dim", Routes.cut),
    "unbind select": ("input dim", Routes.cut),
    "__iter__ __reversed__": ("input", Routes.cut),
    "roll": ("input shifts dim", Routes.over),
    "flip": ("input dim second third", Routes.turned),
    "sort mode": ("input dim", Routes.along),
    "topk kthvalue diff normalize": ("input k dim", Routes.along),
    "cosine_similarity pairwise_distance": ("input second dim", Routes.compared),
    "mean sum amax amin max min prod std var std_mean var_mean median": ("input dim", Routes.over),
    "nanmean nansum nanmedian aminmax logsumexp logcumsumexp cumsum cumprod cummax cummin": ("input dim", Routes.over),
    "softmax log_softmax softmin gumbel_softmax": ("input dim", Routes.over),
    "norm vector_norm quantile nanquantile fftn ifftn rfftn irfftn": ("input order dim", Routes.over),
    "cdist matmul mm mv": ("left input", Routes.multiplied),
    "addmm addmv": ("bias left input", Routes.multiplied),
    "einsum": ("input first second third", Routes.in_letters),
    "batch_norm": ("input a b c d training", Routes.normed),
    "scaled_dot_product_attention": ("input", Routes.attended),
    "repeat_interleave": ("input by", Routes.repeated),
    "arange": ("end start step", Routes.counted),
    "view reshape flatten unflatten view_as reshape_as ravel": ("input", Routes.reshaped),
    "layer_norm rms_norm": ("input", Routes.along),
    "glu": ("input dim", Routes.along),
    "rfft irfft fft ifft": ("input n dim", Routes.along),
    # each entry of the first axis by itself
    "conv conv_transpose max_pool avg_pool lp_pool adaptive_max_pool adaptive_avg_pool fractional_max_pool group_norm "
    "instance_norm local_response_norm pad interpolate grid_sample bilinear pixel_shuffle pixel_unshuffle "
    "channel_shuffle fold unfold bmm baddbmm tril triu cross_entropy nll_loss binary_cross_entropy_with_logits "
    "mse_loss": ("input weight third", Routes.each),
    # every sample stays in its place, or is laid out as the trial finds it
    "__get__ __len__ size cat concat stack hstack vstack transpose permute t movedim moveaxis swapaxes swapdims "
    "squeeze unsqueeze expand expand_as broadcast_to repeat tile contiguous clone detach to type type_as double float "
    "half bfloat16 cpu cuda real imag view_as_real view_as_complex requires_grad log_sigmoid dropout alpha_dropout "
    "linear feature_dropout prelu embedding embedding_bag lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell "
    "rnn_relu_cell diag_embed multi_head_attention_forward fake_quantize_per_tensor_affine "
    "fake_quantize_per_channel_affine": ("", None),
}
# Functions of one entry each, by the name of one that torch marks as such.
_SAME = {"copy": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "__rdiv__": "div", "__rpow__": "pow"}
_SAME |= dict.fromkeys(("hardswish", "tanhshrink", "softsign"), "neg")
_OTHER_NAMES = {
    **{"src": "source", "value": "source", "values": "source", "repeats": "by", "dims": "dim", "dimension": "dim"},
    **{"query": "input", "indices": "index", "x1": "input", "x2": "second"},
    **{"other": "input", "mat1": "left", "mat2": "input", "mat": "left", "vec": "input"},
}


@cache
def watched(func: Any) -> Watch | None:
    """How a call of a function is looked at, with the names of its arguments; None: it need not be."""
    name = "" if isinstance(func, torch._ops.OpOverloadPacket) else getattr(func, "__name__", "")  # of one's own
    name = name if name.startswith("__") else re.sub("^(linalg|fft|special)_", "", name.strip("_"))
    for listed in (name, name.rstrip("123d")):
        if (known := _by_name().get(listed)) is not None:
            return None if known[1] is None else (tuple(known[0].split()), known[1])
    packet = getattr(torch.ops.aten, _SAME.get(name, name.strip("_")), None)
    ways = [getattr(packet, key) for key in packet.overloads() if "out" not in key] if packet is not None else []
    if not any(torch.Tag.pointwise in way.tags for way in ways):
        return ("first", "second", "third", "fourth"), Routes.unknown
    counts = [sum(a.type.kind() == "TensorType" for a in way._schema.arguments) for way in ways]
    return (("first", "second", "third"), Routes.broadcast) if max(counts) > 1 else None


@cache
def _by_name() -> dict[str, tuple[str, Look | None]]:
    return {name: look for names, look in _LOOKS.items() for name in names.split()}


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
