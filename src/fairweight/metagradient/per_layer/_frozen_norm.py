"""Batch norm whose statistics can be held constant on the way back, so that no sample sees another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call
from fairweight.metagradient.per_layer.kinds.norm import Norm


class Switch:
    """Whether statistics are constants in the next backward pass."""

    on = True


class FrozenNorm(Norm):
    """Scale and shift of a batch norm in training mode, with x̂ as the batch's statistics made it."""

    _normal: Tensor

    @classmethod
    def run(cls, call: Call, given: dict[str, Any], switch: Switch) -> tuple[FrozenNorm, Tensor]:
        """The norm read as this kind, and its own result."""
        kind, a, apply = cls(call._replace(function=torch.batch_norm), given), given["input"], _BatchNorm.apply
        names = ("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps")
        out, middle, scale = apply(*(given[name] for name in names), switch)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            kind._normal = (a - _by_channel(middle, a)) * _by_channel(scale, a)
        kind.given, kind.kept = {}, ()
        return kind, out

    def normal(self, g: Tensor) -> Tensor:
        return self._normal.to(g.dtype)


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


def _by_channel(t: Tensor, like: Tensor) -> Tensor:
    return t.reshape(-1, *(1,) * (like.ndim - 2))
