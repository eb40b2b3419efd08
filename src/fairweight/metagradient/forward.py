"""Mode "forward": one forward-mode pass gives the exact tangent of the logits; no second derivative is built."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from fairweight.metagradient.passes import ForwardPass, Parameters, run


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """How the logits of the train batch move along the direction, at the pass's own parameters."""  # [B, K]
    with torch.no_grad(), done.again(), forward_ad.dual_level():
        dual = {
            name: _dual(p.detach(), direction[name]) if name in direction else p.detach()
            for name, p in done.parameters.items()
        }
        logits, moved = _parts(run(done.model, dual, done.batch.inputs, len(done.batch)))
    return torch.zeros_like(logits) if moved is None else moved


def _dual(value: Tensor, along: Tensor) -> Tensor:
    made: Tensor = forward_ad.make_dual(value, along)  # type: ignore[no-untyped-call]
    return made


def _parts(dual: Tensor) -> tuple[Tensor, Tensor | None]:
    value, along = forward_ad.unpack_dual(dual)  # type: ignore[no-untyped-call]
    return value, along
