"""How far the exemplars agree on where scores should go."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from fairweight.metagradient.passes import ForwardPass, Mode
from fairweight.metagradient.solve import Rates, exemplar_point, pull
from fairweight.types import Batch, ObjectiveFunction


def halves(exemplar: Batch) -> tuple[Tensor, Tensor]:
    """Positions of two halves with the same cells, member by member."""
    order = torch.argsort(exemplar.labels, stable=True)
    if exemplar.groups is not None:
        order = order[torch.argsort(exemplar.groups[order], stable=True)]
    even = len(order) // 2 * 2
    return order[0:even:2], order[1:even:2]


def agreement(
    done: ForwardPass, exemplar: Batch, objective: ObjectiveFunction, rates: Rates, mode: Mode
) -> Tensor | None:
    """Cosine between the centred pulls of the two halves, at θ; None where a half would be empty."""  # []
    every = done.exemplars(exemplar)
    if len(every) < 2:
        return None
    unchecked = copy.copy(done)
    unchecked.check = False
    here = {name: p.detach().requires_grad_(name in rates) for name, p in done.parameters.items()}
    by, pulls = {name: here[name] for name in rates}, []
    for half in halves(every):
        # members of a half may lie on several ranks, on some of them perhaps none
        part, among = (exemplar.take(half), None) if every is exemplar else (exemplar, half)
        point = exemplar_point(unchecked, here, part, objective, by=by, among=among)
        pulled = pull(done, point.direction, mode, rates)
        centred = (pulled - pulled.mean()).double()  # in float64: products of small pulls must not vanish
        pulls.append(centred / centred.norm().clamp_min(1e-150))
    cosine: Tensor = (pulls[0] * pulls[1]).sum().to(done.losses.dtype)
    return cosine
