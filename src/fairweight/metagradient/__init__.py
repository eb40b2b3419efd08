"""How each sample's score would move the objective: exact, with first derivatives alone.

With l the per-sample train losses at θ, p = softmax(w), θ̃ = θ − η ∇Σ p_i l_i and v = ∇objective(θ̃), the
gradient is d objective / d w_i = −η p_i (s_i − Σ_j p_j s_j) with the pull s = (dl/dθ) v: one forward-mode pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, LossNotFinite, RowsOutOfRange
from fairweight.metagradient import double_backward, head
from fairweight.metagradient.choose import MODES, Mode, choose, tangent
from fairweight.metagradient.displacement import Displacement, ExemplarPoint, Rate, displaced, exemplar_point, slopes
from fairweight.metagradient.passes import ForwardPass, Parameters, classification_loss, forward, virtual_forward
from fairweight.metagradient.scope import Scope, in_scope
from fairweight.metagradient.weight_form import WeightForm, pull, weight_form
from fairweight.types import Batch, Loss, Objective

__all__ = [
    "MODES",
    "DirectionMemory",
    "Displacement",
    "ExemplarPoint",
    "ForwardPass",
    "Mode",
    "Scope",
    "Solution",
    "WeightForm",
    "batch_scores",
    "check_slope",
    "choose",
    "classification_loss",
    "displaced",
    "exemplar_point",
    "forward",
    "pull",
    "score_gradient",
    "slopes",
    "solve",
    "tangent",
    "train_slopes",
    "virtual_forward",
    "weight_form",
]


class DirectionMemory:
    """A running average of the objective's gradient over steps, free of the bias of its start."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.sums: Parameters = {}  # decayed sums, changed in place so that a captured graph can replay them
        self.weight: Tensor | None = None  # [] decayed sum of 1

    def update(self, direction: Parameters) -> Parameters:
        """Take in one more gradient and give the average."""
        if self.weight is None:
            self.weight = torch.zeros((), dtype=torch.float64, device=next(iter(direction.values())).device)
        self.weight = self.weight.to(next(iter(direction.values())).device)  # a loaded state may lie elsewhere
        self.weight.mul_(self.decay).add_(1 - self.decay)
        for name, v in direction.items():
            self.sums[name] = self.sums[name].to(v.device) if name in self.sums else torch.zeros_like(v)
            self.sums[name].mul_(self.decay).add_(v, alpha=1 - self.decay)
        return {name: self.sums[name] / self.weight for name in direction}

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        weight = None if self.weight is None else self.weight.clone()
        return {"sums": {name: total.clone() for name, total in self.sums.items()}, "weight": weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the sums back."""
        self.sums = {name: total.clone() for name, total in state["sums"].items()}
        self.weight = None if state["weight"] is None else state["weight"].clone()


@dataclass(frozen=True)
class Solution:
    """The score gradient, and what was seen on the way to it."""

    gradient: Tensor  # [B]
    objective: Tensor  # []
    exemplar_losses: Tensor  # [E]
    pull: Tensor | None = None  # [B]; the oracle does not see it


def solve(
    done: ForwardPass,
    exemplar: Batch,
    scores: Tensor,
    objective: Objective,
    displacement: Displacement,
    mode: Mode,
    form: WeightForm,
    *,
    running_statistics: bool = False,
    at_rest: bool = False,
    memory: DirectionMemory | None = None,
    check: bool = True,
) -> Solution:
    """The score gradient for a forward pass that has been made; its graph is kept for the real step.

    at_rest: take the objective's gradient at θ instead of θ̃. memory: average that gradient over steps.
    Either is an approximation; without them the gradient is exact.
    """
    if mode.name == "double-backward" and not at_rest and memory is None:
        gradient, value, losses = double_backward.score_gradient(
            done, exemplar, scores, objective, displacement, form, running_statistics=running_statistics, check=check
        )
        if check:
            check_slope([gradient])
        return Solution(gradient, value, losses)
    labels = done.batch.labels
    there, moving = done.parameters, displacement.moving(done.parameters)
    if not at_rest:
        there = displaced(done.parameters, train_slopes(done, scores, form, moving, mode), displacement)
    point = exemplar_point(
        done, there, exemplar, objective, moving=moving, running_statistics=running_statistics, check=check
    )
    if check:
        check_slope(point.direction.values())
    direction = point.direction if memory is None else memory.update(point.direction)
    moved = tangent(done, displacement.along(direction), mode)  # [B, K]
    logits = done.logits.detach()
    pulled = pull(logits, moved, labels, done.loss)
    gradient = form.gradient(scores, logits, moved, labels, done.loss, pulled)
    return Solution(gradient, point.value, point.losses, pulled)


def train_slopes(done: ForwardPass, scores: Tensor, form: WeightForm, moving: Parameters, mode: Mode) -> Parameters:
    """Gradient of the weighted train loss by the parameters that move; the graph is kept for the real step."""
    labels, w = done.batch.labels, scores.detach()
    if mode.layer is not None:
        return head.slopes(done, moving, lambda z, losses: form.total(w, z, losses, labels, done.loss), mode.layer)
    with torch.enable_grad():
        total = form.total(w, done.logits, done.losses, labels, done.loss)
    return slopes(total, moving)


def check_slope(slope: Iterable[Tensor]) -> None:
    """Refuse a gradient of the objective that is NaN or infinite, before anything is moved by it."""
    if not all(bool(torch.isfinite(part).all()) for part in slope):
        raise LossNotFinite(
            "The objective on the exemplar batch is finite and its gradient is not, as at the root of 0; nothing was "
            "moved. Keep the objective smooth there, for example with clamp_min, or lower the learning rate."
        )


def batch_scores(scores: Tensor, batch: Batch) -> Tensor:
    """The batch's scores: those of its rows, or the scores themselves where they are one per batch member."""  # [B]
    if scores.ndim != 1:
        raise BadInput(f"Scores have shape {tuple(scores.shape)}; give one per sample, [N] or [{len(batch)}].")
    if batch.rows is None:
        if len(scores) != len(batch):
            raise BadInput(f"{len(scores)} scores for {len(batch)} samples without rows; give Batch(rows=...).")
        return scores
    if len(batch) and (int(batch.rows.min()) < 0 or int(batch.rows.max()) >= len(scores)):
        if len(scores) == len(batch):
            return scores
        raise RowsOutOfRange(
            f"The batch names rows {int(batch.rows.min())} to {int(batch.rows.max())}, and there are {len(scores)} "
            "scores; rows count from 0 to num_samples - 1."
        )
    return scores[batch.rows]


def score_gradient(
    model: nn.Module,
    batch: Batch,
    exemplar: Batch,
    scores: Tensor,
    objective: Objective,
    lr: Rate,
    mode: str = "forward",
    *,
    reverse: bool = False,
    loss: Loss = classification_loss,
    form: str | WeightForm = "softmax",
    scope: str | None = None,
) -> Tensor:
    """d objective(θ̃) / d score for each member of the batch; touches nothing.

    scores: [N], read at the batch's rows; or [B]. lr: a number, or one number or tensor per parameter name.
    reverse: the look-ahead goes up the train loss instead of down. scope: the virtual step moves these submodules
    alone ("head": the last linear layer); all else stays.
    """  # [B]
    part = None if scope is None else Scope(model, scope)
    if part is not None:
        part.settle(model, batch, loss)
    chosen = choose(model, batch, loss, mode, part)
    done = virtual_forward(model, batch, loss, plain_kernels=chosen.plain_kernels, layer=chosen.layer)
    displacement = Displacement.of(done.parameters, lr, reverse=reverse).within(in_scope(done.parameters, part))
    own = batch_scores(scores, batch).detach()
    own = own.to(torch.promote_types(own.dtype, done.losses.dtype))
    return solve(done, exemplar, own, objective, displacement, chosen, weight_form(form)).gradient
