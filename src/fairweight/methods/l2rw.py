"""Learning to reweight."""

from __future__ import annotations

import torch
from torch import nn

from fairweight.metagradient import ForwardPass, classification_loss, exemplar_point, pull, tangent
from fairweight.methods import shares
from fairweight.methods._exemplar_method import ExemplarLearner
from fairweight.methods.look_ahead import LookAhead
from fairweight.types import Batch, Loss, Objective, Weighing


class L2RW(ExemplarLearner):
    """Weighs each batch afresh by how far each sample's gradient descends the objective: the pull, rectified.

    objective: any f(losses, groups) -> scalar; by default the mean loss, as in the paper.
    """

    paper = "Ren, Zeng, Yang, Urtasun 2018, arXiv 1803.09050"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        objective: Objective | None = None,
        gradient: str = "auto",
        *,
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, objective, gradient, loss=loss)

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing:
        """max(pull, 0), divided by its sum; 0 for all where no pull is positive."""
        assert exemplar is not None
        assert self._mode is not None
        point = exemplar_point(done, done.parameters, exemplar, self.objective, check=check)
        # The rate divides out; what counts is that a parameter nobody moves does not count.
        direction = LookAhead(lr=1.0).displacement(done.parameters, None, optimizer).along(point.direction)
        s = pull(done.logits.detach(), tangent(done, direction, self._mode), done.batch.labels, done.loss)
        weights = shares(s.clamp_min(0.0))
        return Weighing(weights, objective=point.value, exemplar_losses=point.losses, pull=s, mode=str(self._mode))
