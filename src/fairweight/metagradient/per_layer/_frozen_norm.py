"""Batch norm whose statistics can be held constant on the way back, so that no sample sees another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Kind, Place, Term, broadcast


class Switch:
    """Whether statistics are constants in the next backward pass."""

    on = True


class FrozenNorm(Kind):
    """Scale and shift of a batch norm in training mode, with x̂ as the batch's statistics made it."""

    def __init__(self, normal: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
        self.call, self.normal, self.weight, self.bias = None, normal, weight, bias
        self.weights = tuple(w for w in (weight, bias) if w is not None)

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        shape = [g.shape[1], *(1,) * (g.ndim - 2)]
        found = []
        if self.weight is not None:
            found.append(broadcast(self.weight, g * self.normal.to(g.dtype), place, shape))
        if self.bias is not None:
            found.append(broadcast(self.bias, g, place, shape))
        return found


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, weight: Any, bias: Any, mean: Any, var: Any, rate: Any, eps: Any, switch: Any) -> Any:
        out, middle, scale = torch.native_batch_norm(a, weight, bias, mean, var, True, rate, eps)
        ctx.save_for_backward(a, weight, middle, scale)
        ctx.eps, ctx.shifts, ctx.switch = eps, bias is not None, switch
        ctx.mark_non_differentiable(middle, scale)
        return out, middle, scale

    @staticmethod
    def backward(ctx: Any, *arrived: Any) -> Any:
        g, (a, weight, middle, scale) = arrived[0], ctx.saved_tensors
        wanted = [True, weight is not None, ctx.shifts]
        found = torch.ops.aten.native_batch_norm_backward(
            g, a, weight, None, None, middle, scale, True, ctx.eps, wanted
        )
        by_input = found[0]
        if ctx.switch.on:
            factor = scale if weight is None else scale * weight
            by_input = (g * _by_channel(factor, g)).to(g.dtype)
        return by_input, found[1] if wanted[1] else None, found[2] if ctx.shifts else None, None, None, None, None, None


def batch_norm(
    switch: Switch,
    a: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """The norm's own result, and x̂."""
    apply: Any = _BatchNorm.apply
    out, middle, scale = apply(a, weight, bias, mean, var, momentum, eps, switch)
    with torch.no_grad():
        normal = (a - _by_channel(middle, a)) * _by_channel(scale, a)
    return out, normal


def _by_channel(t: Tensor, like: Tensor) -> Tensor:
    return t.reshape(-1, *(1,) * (like.ndim - 2))
