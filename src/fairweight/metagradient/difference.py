"""Mode "difference": two plain forward passes on either side give the tangent of the logits approximately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable
from fairweight.metagradient import _written
from fairweight.metagradient.model import Parameters, trainable
from fairweight.metagradient.passes import ForwardPass, in_full


def norm(values: Parameters) -> Tensor:
    """Euclidean norm over all entries, in float64: the squares of a small direction must not vanish."""  # []
    size: Any = torch.linalg.vector_norm
    flat = (torch.view_as_real(v) if v.is_complex() else v for v in values.values())
    return size(torch.stack([size(v, dtype=torch.float64) for v in flat]))  # type: ignore[no-any-return]


# The exponent of the precision that gives the distance to each side. Rounding falls and curvature grows with it: a
# smooth model is best at 1/3, and one with kinks such as ReLU's better near 1/2 (a narrow ResNet in float32 errs by
# 18 % at 1/3, by 1 % at 0.45, where smooth ones stay below 0.01 %).
NEARNESS = 0.45


def step_length(here: Parameters, along: Parameters) -> Tensor:
    """How far to go to each side, as a multiple of the direction: well above the rounding of the parameters."""  # []
    limits = torch.finfo(min((d.dtype.to_real() for d in along.values()), key=lambda t: torch.finfo(t).bits))
    rounding = 10 * limits.eps * norm({name: here[name] for name in along})
    distance: Tensor = rounding.clamp_min(limits.eps**NEARNESS) / norm(along).clamp_min(limits.tiny)
    return distance.clamp_max(limits.max / 4)  # no direction at all: any finite length will do


def check(model: nn.Module) -> None:
    """Refuse a model that writes over what moves: what it writes would be differentiated as well."""
    if over := sorted(_written.names.get(model, frozenset()) & trainable(model).keys()):
        raise NotDifferentiable(
            f"The model writes over {over[0]} in its forward pass, as max_norm does, which a difference would take for "
            "a part of the gradient; use gradient='auto', or keep the rows short after the optimizer's step instead."
        )


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """Central difference of the logits along the direction, in float32 at least, also under autocast."""  # [B, K]
    check(done.model)
    here = {name: in_full(p.detach()) for name, p in done.parameters.items()}
    moving = {name: in_full(d) for name, d in direction.items()}
    step, sides = step_length(here, moving), []
    with torch.no_grad(), torch.autocast(done.device.type, enabled=False), _no_fast_path():
        for sign in (1.0, -1.0):
            there = {name: p + sign * step * moving[name] if name in moving else p for name, p in here.items()}
            sides.append(done.run(there, done.batch, torch.Tensor.detach, full=True))
    return (in_full(sides[0]) - in_full(sides[1])) / (2 * step)


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """Attention as in passes with a gradient: without one, in eval mode, torch's own layers leave padding out."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
