"""Batch norm's tangent in half the passes over memory that its general rule takes.

With x̂ = (x − mean) · inv and means over all but the channels,

    y' = γ inv (x' − mean(x') − x̂ mean(x̂ x')) + γ' x̂ + β'

is A x' + B (x − mean) + C with one number per channel each.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairweight.metagradient.forward import SHORTCUTS, make_dual, unpack_dual
from fairweight.metagradient.passes import in_full


class NormTangents(TorchFunctionMode):
    """Give batch norm by the batch's statistics the tangent above, inside a forward-mode pass."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not F.batch_norm:
            return func(*args, **kwargs)
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        usual = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}
        given = {**usual, **dict(zip(names, args, strict=False)), **kwargs}
        found = _batch_norm(given) if given["training"] else None
        return func(*args, **kwargs) if found is None else found


def _batch_norm(given: dict[str, Any]) -> Tensor | None:
    (x, dx), (weight, d_weight), (bias, d_bias) = (_parts(given[name]) for name in ("input", "weight", "bias"))
    if x is None or (dx is None and d_weight is None and d_bias is None):
        return None
    # as the pass before did it, so that a traced graph holds it once; running statistics are moved by that one
    out, mean, inverse = torch.native_batch_norm(x, weight, bias, None, None, True, given["momentum"], given["eps"])
    along = tangent(x, weight, mean, inverse, dx, d_weight, d_bias)
    made: Tensor = make_dual(out, along)
    return made


def _parts(value: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Value and tangent."""
    return (None, None) if value is None else unpack_dual(value)


def tangent(
    x: Tensor, weight: Tensor | None, mean: Tensor, inverse: Tensor,  # [B, C, ...], and [C] each; 1 / deviation
    dx: Tensor | None, d_weight: Tensor | None, d_bias: Tensor | None,
) -> Tensor:  # fmt: skip
    """The tangent of batch norm along that of its inputs; in float32 at least."""  # [B, C, ...]
    dims = [d for d in range(x.ndim) if d != 1]

    def by_channel(values: Tensor) -> Tensor:
        return values.reshape(1, -1, *(1,) * (x.ndim - 2))

    centred = in_full(x) - by_channel(mean)
    scale = torch.zeros_like(inverse) if d_weight is None else inverse * d_weight  # of the centred inputs: B
    shift = torch.zeros_like(inverse) if d_bias is None else d_bias  # C
    if dx is None:
        return torch.addcmul(by_channel(shift), centred, by_channel(scale)).to(x.dtype)
    moved = in_full(dx)
    along = inverse if weight is None else inverse * weight  # A
    scale = scale - along * inverse.square() * (centred * moved).mean(dims)
    shift = shift - along * moved.mean(dims)
    found = torch.addcmul(by_channel(shift), moved, by_channel(along))
    del moved  # uncompiled, these are the largest tensors of the pass: as few at a time as can be
    return found.addcmul_(centred, by_channel(scale)).to(x.dtype)


SHORTCUTS.append(NormTangents)
