"""Mode "difference": two plain forward passes on either side give the tangent of the logits approximately."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.metagradient.passes import ForwardPass, Parameters, in_full, run


def norm(values: Parameters) -> Tensor:
    """Euclidean norm over all entries."""  # []
    total: Tensor = torch.stack(torch._foreach_norm(list(values.values()))).norm()
    return total


def step_length(here: Parameters, along: Parameters) -> Tensor:
    """How far to go to each side, as a multiple of the direction.

    Rounding falls and curvature grows with the distance: the cube root of the precision, in units of the
    parameters' own size, balances the two.
    """  # []
    length = norm(along)
    precision = torch.finfo(length.dtype).eps ** (1 / 3)
    size = norm({name: here[name] for name in along}).clamp_min(1.0)
    distance: Tensor = precision * size / length.clamp_min(torch.finfo(length.dtype).tiny)
    return distance


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """Central difference of the logits along the direction, in at least float32 whatever the autocast."""  # [B, K]
    here = {name: in_full(p.detach()) for name, p in done.parameters.items()}
    along = {name: in_full(d) for name, d in direction.items()}
    step = step_length(here, along)
    sides = []
    with torch.no_grad(), torch.autocast(done.device.type, enabled=False):
        for sign in (1.0, -1.0):
            there = {name: p + sign * step * along[name] if name in along else p for name, p in here.items()}
            with done.again():
                sides.append(run(done.model, there, done.batch.inputs, len(done.batch), full=True))
    return (sides[0] - sides[1]) / (2 * step)
