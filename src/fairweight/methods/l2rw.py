"""Learning to reweight."""

from __future__ import annotations

import torch

from fairweight.metagradient import ForwardPass, exemplar_point, pull
from fairweight.metagradient.solve import check_finite
from fairweight.methods import ExemplarMethod, shares
from fairweight.methods.look_ahead import LookAhead
from fairweight.types import Batch, Weighing


class L2RW(ExemplarMethod):
    """Weighs each batch afresh by how far each sample's gradient descends the objective: the pull, rectified.

    objective: any f(losses, groups) -> scalar; by default the mean loss, as in the paper.
    """

    paper = "Ren, Zeng, Yang, Urtasun 2018, arXiv 1803.09050"

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """max(pull, 0), divided by its sum; 0 for all where no pull is positive."""
        assert exemplar is not None
        assert self.mode is not None
        # The rate cancels; it only leaves out parameters that the optimizer does not move.
        rates = LookAhead(lr=1.0).rates(done.parameters, optimizer)
        here = {name: p.detach().requires_grad_(name in rates) for name, p in done.parameters.items()}
        point = exemplar_point(done, here, exemplar, self.objective, by={name: here[name] for name in rates})
        s = pull(done, point.direction, self.mode, rates)
        if done.check and done.loss_scale is None:
            check_finite(point.value, s)
        weights = shares(s.clamp_min(0.0))
        return Weighing(weights, objective=point.value, exemplar_losses=point.losses, pull=s, mode=str(self.mode))
