"""The whole step as one pure function: the paper's algorithm, readable; the slow twin of everything in `fast/`.

l   = per-sample losses on the train batch at θ
p   = softmax(w)
θ̃   = θ − η ∇Σ p_i l_i
v   = ∇ objective(losses of the exemplar batch at θ̃)
s   = (dl/dθ) η v                                    the pull
g_i = −p_i (s_i − Σ_j p_j s_j)                       = d objective / d w_i, exactly
∇Σ p'_i l_i                                          with p' the weights that the moved scores give
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import jvp, vjp

from fairweight.metagradient.model import Parameters
from fairweight.metagradient.solve import evaluate
from fairweight.types import Batch, Loss, ObjectiveFunction

# A model as a pure function: (parameters, batch) -> logits [B, K].
Net = Callable[[Parameters, Batch], Tensor]


class WholeStep(NamedTuple):
    """What a step computes."""

    gradient: Tensor  # [B] d objective / d score
    pull: Tensor  # [B]
    objective: Tensor  # []
    exemplar_losses: Tensor  # [E]
    losses: Tensor  # [B]
    logits: Tensor  # [B, K]
    weights: Tensor  # [B] before the scores moved
    slope: Parameters  # of the train loss under the weights after the scores moved


def whole_map(
    net: Net,
    loss: Loss,
    objective: ObjectiveFunction,
    parameters: Parameters,
    scores: Tensor,  # [B]
    train: Batch,
    exemplar: Batch,
    rates: Mapping[str, float | Tensor],
    reweigh: Callable[[Tensor, Tensor], Tensor],
    *,
    at_rest: bool = False,
) -> WholeStep:
    """One step of FORML, without moving anything.

    rates: of the virtual step; a parameter without one stays. reweigh: (gradient, weights) -> the new weights, [B].
    """

    def train_losses(at: Parameters) -> tuple[Tensor, Tensor]:
        logits = net({**parameters, **at}, train)
        return loss(logits, train.labels), logits

    def exemplar_objective(at: Parameters) -> tuple[Tensor, Tensor]:
        losses = loss(net({**parameters, **at}, exemplar), exemplar.labels)
        return evaluate(objective, losses, exemplar), losses

    losses, back, logits = vjp(train_losses, parameters, has_aux=True)  # type: ignore[misc]
    p = torch.softmax(scores, dim=0)
    (slope,) = back(p.to(losses.dtype))
    here = {name: parameters[name] for name in rates}
    there = here if at_rest else {name: θ - rates[name] * slope[name] for name, θ in here.items()}
    value, exemplar_back, exemplar_losses = vjp(exemplar_objective, there, has_aux=True)  # type: ignore[misc]
    (v,) = exemplar_back(torch.ones_like(value))
    along = {name: rates[name] * v[name] for name in rates}
    s = jvp(lambda at: train_losses(at)[0], (here,), (along,))[1]
    g = -p * (s - (p * s).sum())
    (final,) = back(reweigh(g, p).to(losses.dtype))
    return WholeStep(g, s, value, exemplar_losses, losses, logits, p, final)
