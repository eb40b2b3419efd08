"""Mode "double-backward": differentiates through the look-ahead itself; the oracle of the other modes."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.metagradient.look_ahead import Displacement, displaced, evaluate
from fairweight.metagradient.passes import ForwardPass, check_labels, norms_frozen, per_sample, run
from fairweight.metagradient.weight_form import WeightForm
from fairweight.types import Batch, Objective


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
        slopes = torch.autograd.grad(
            total, list(done.parameters.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        there = displaced(done.parameters, dict(zip(done.parameters, slopes, strict=True)), displacement)
        with done.again(), norms_frozen(done.model, running_statistics):
            logits = run(done.model, there, exemplar.inputs, len(exemplar))
        if check:
            check_labels(logits, exemplar.labels, "exemplar")
        losses = per_sample(done.loss, logits, exemplar.labels)
        value = evaluate(objective, losses, exemplar)
        if value.requires_grad:  # the graph is kept: the real step runs backward over the same forward pass
            (gradient,) = torch.autograd.grad(value, w, retain_graph=True, allow_unused=True, materialize_grads=True)
        else:  # an objective that is constant here
            gradient = torch.zeros_like(scores)
    return gradient + form.penalty_gradient(scores), value.detach(), losses.detach()
