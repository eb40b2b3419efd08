"""Learning to reweight."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairweight.metagradient import (
    Displacement,
    ForwardPass,
    Mode,
    choose,
    classification_loss,
    exemplar_point,
    pull,
    tangent,
)
from fairweight.objectives.mean import MeanLoss
from fairweight.reweight import Reweighter
from fairweight.types import Batch, Loss, Objective, Weighing


class L2RW(Reweighter):
    """Weighs each batch afresh by how far each sample's gradient descends the objective: the pull, rectified."""

    paper = "Ren, Zeng, Yang, Urtasun 2018, arXiv 1803.09050"
    needs = frozenset({"exemplar"})

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        objective: Objective | None = None,
        gradient: str = "auto",
        *,
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, loss=loss)
        self.objective = MeanLoss() if objective is None else objective
        self.gradient = gradient
        self._mode: Mode | None = None

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode:
        """On the first step find a gradient mode that works; the tangent needs no second derivative."""
        super().prepare(batch, exemplar, optimizer, check)
        if self._mode is None:
            asked = "forward" if self.gradient == "double-backward" else self.gradient
            chosen = choose(self.model, batch, self.loss, asked)
            self._mode = Mode("forward", reason=chosen.reason) if chosen.name == "double-backward" else chosen
        return self._mode

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing:
        """max(pull, 0), divided by its sum; 0 for all where no pull is positive."""
        assert exemplar is not None
        assert self._mode is not None
        point = exemplar_point(done, done.parameters, exemplar, self.objective, check=check)
        direction = Displacement.of(done.parameters, 1.0).along(point.direction)
        s = pull(done.logits.detach(), tangent(done, direction, self._mode), done.batch.labels, done.loss)
        return Weighing(rectified(s), objective=point.value, exemplar_losses=point.losses, pull=s, mode=str(self._mode))


def rectified(pulls: Tensor) -> Tensor:
    """The positive part as shares of its sum; all zero where nothing is positive."""  # [B]
    positive = pulls.clamp_min(0.0)
    total = positive.sum()
    return torch.where(total > 0, positive / total.clamp_min(torch.finfo(total.dtype).tiny), torch.zeros_like(positive))
