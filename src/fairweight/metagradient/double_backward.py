"""Mode "double-backward": differentiates through the look-ahead itself; the oracle of the other modes."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.metagradient._context import norms_frozen
from fairweight.metagradient.displacement import Displacement, check_value, displaced, evaluate
from fairweight.metagradient.passes import ForwardPass, Parameters, check_labels, per_sample
from fairweight.metagradient.weight_form import WeightForm
from fairweight.types import Batch, Objective


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """How the logits move along the direction, by two backward passes over the graph of the pass."""  # [B, K]
    along = {name: done.parameters[name] for name in direction}
    with torch.enable_grad():
        u = torch.zeros_like(done.logits, requires_grad=True)  # J^T u is linear in u, with derivative J^T
        slopes = torch.autograd.grad(
            done.logits, list(along.values()), u, create_graph=True, allow_unused=True, materialize_grads=True
        )
        moved = torch.stack([(slopes[k] * direction[name]).sum() for k, name in enumerate(along)]).sum()
        if not moved.requires_grad:  # the direction holds no parameter that the logits depend on
            return torch.zeros_like(done.logits)
        (found,) = torch.autograd.grad(moved, u, retain_graph=True)
    return found.detach()


def score_gradient(
    done: ForwardPass,
    exemplar: Batch,
    scores: Tensor,
    objective: Objective,
    displacement: Displacement,
    form: WeightForm,
    *,
    running_statistics: bool = False,
    check: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """d objective / d scores through the whole map, the objective, and the exemplar losses."""  # [B], [], [E]
    with torch.enable_grad():
        w = scores.detach().requires_grad_()
        total = form.total(w, done.logits, done.losses, done.batch.labels, done.loss)
        moving = displacement.moving(done.parameters)
        slopes = torch.autograd.grad(
            total, list(moving.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        there = displaced(done.parameters, dict(zip(moving, slopes, strict=True)), displacement)

        def backward(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            if check:
                check_labels(logits, exemplar.labels, "exemplar")
            losses = per_sample(done.loss, logits, exemplar.labels)
            value = evaluate(objective, losses, exemplar)
            if check:
                check_value(value)
            gradient = torch.zeros_like(scores)  # for an objective that is constant here
            if value.requires_grad:  # the graph is kept: the real step runs backward over the same forward pass
                (gradient,) = torch.autograd.grad(
                    value, w, retain_graph=True, allow_unused=True, materialize_grads=True
                )
            return gradient + form.penalty_gradient(scores), value.detach(), losses.detach()

        with norms_frozen(done.model, running_statistics):
            return done.run(there, exemplar, backward)
