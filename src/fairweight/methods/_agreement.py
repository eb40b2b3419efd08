"""Whether two halves of the exemplar batch pull the same way."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.metagradient import Displacement, ForwardPass, Mode, exemplar_point, pull, tangent
from fairweight.types import Batch, Objective


def halves(exemplar: Batch) -> tuple[Tensor, Tensor]:
    """Positions of two halves with the same cells, member by member."""
    order = torch.argsort(exemplar.labels, stable=True)
    if exemplar.groups is not None:
        order = order[torch.argsort(exemplar.groups[order], stable=True)]
    even = len(order) // 2 * 2
    return order[0:even:2], order[1:even:2]


def agreement(
    done: ForwardPass, exemplar: Batch, objective: Objective, displacement: Displacement, mode: Mode
) -> Tensor | None:
    """Cosine between the centred pulls of the two halves, at θ; None where a half would be empty."""  # []
    if len(exemplar) < 2:
        return None
    pulls = []
    labels = done.batch.labels
    for half in halves(exemplar):
        moving = displacement.scale.keys()
        point = exemplar_point(done, done.parameters, exemplar.take(half), objective, moving=moving, check=False)
        moved = tangent(done, displacement.along(point.direction), mode)
        s = pull(done.logits.detach(), moved, labels, done.loss)
        centred = (s - s.mean()).double()  # in float64: products of small pulls must not vanish
        pulls.append(centred / centred.norm().clamp_min(1e-150))
    cosine: Tensor = (pulls[0] * pulls[1]).sum().to(done.losses.dtype)
    return cosine
