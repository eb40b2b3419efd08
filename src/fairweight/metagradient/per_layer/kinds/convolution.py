"""y = conv(a, W) + b, plain and transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Direct, Place, Product, Term, broadcast, matched

_PLAIN = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}


class Convolution(Product):
    """A kernel that slides over the input: conv1d to conv3d and their transposes, with every option."""

    functions: ClassVar[frozenset[Any]] = frozenset({*_PLAIN, *_TRANSPOSED})

    options: tuple[Any, ...]

    @classmethod
    def of(cls, call: Call) -> Self | None:
        transposed = call.function in _TRANSPOSED
        dims = _TRANSPOSED[call.function] if transposed else _PLAIN[call.function]
        last = "output_padding groups dilation" if transposed else "dilation groups"
        given = call.read(
            f"input weight bias stride padding {last}",
            bias=None, stride=1, padding=0, dilation=1, groups=1, output_padding=0,
        )  # fmt: skip
        a, weight = given["input"], given["weight"]
        if call.learned(a) or a.ndim != dims + 2:
            return None
        padding = _padding(given["padding"], weight.shape[2:], given["dilation"])
        if padding is None:
            return None
        made = cls(call, a, weight, given["bias"])
        stride, dilation, more = (_each(given[name], dims) for name in ("stride", "dilation", "output_padding"))
        made.options = (stride, _each(padding, dims), dilation, transposed, more, given["groups"])
        return made

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        found: list[Term] = []
        if self.a is not None:
            found.append(_Kernel(self.weight, matched(self.a.detach(), g), g, place, self.options))
        if self.bias is not None:
            found.append(broadcast(self.bias, g, place, (len(self.bias), *(1,) * (g.ndim - 2))))
        return found


class _Kernel(Direct):
    def __init__(self, weight: Tensor, a: Tensor, g: Tensor, place: Place, options: tuple[Any, ...]) -> None:
        super().__init__(weight, g, place)
        self.a, self.options = a, options

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        a, g = self.a, self.g
        if ratio is not None:
            if self.place.axis == 0 and a.numel() < g.numel():
                a = self.place.scale(a, ratio)
            else:
                g = self.place.scale(g, ratio)
        weight = matched(self.weights[0].detach(), g)
        found = torch.ops.aten.convolution_backward(g, a, weight, None, *self.options, [False, True, False])
        return [found[1]]

    def moved(self, v: Tensor) -> Tensor:
        return torch.convolution(self.a, matched(v, self.g), None, *self.options)


def _each(value: Any, dims: int) -> list[int]:
    found = [value] if isinstance(value, int) else list(value)
    return found * dims if len(found) == 1 else found


def _padding(padding: Any, kernel: Sequence[int], dilation: Any) -> Any:
    """The padding in numbers; None where the two sides need different ones."""
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return 0
    total = [d * (k - 1) for d, k in zip(_each(dilation, len(kernel)), kernel, strict=True)]
    return None if any(n % 2 for n in total) else [n // 2 for n in total]
