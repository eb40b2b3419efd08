"""A smooth discrepancy."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.objectives import Objective, group_losses


class LossVariance(Objective):
    """Variance of the group losses: every group pulls at once, so its gradient is steadier than that of max − min.

    root: the standard deviation instead, which keeps its proportion to the losses as they fall.
    """

    def __init__(self, root: bool = False) -> None:
        self.root = root

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The variance over groups; 0 where one group is present."""  # []
        variance = group_losses(losses, groups).variance()
        if not self.root:
            return variance
        # The root has no slope at 0: equal groups leave nothing to pull at.
        apart = variance > 1e-24
        return torch.where(apart, torch.where(apart, variance, 1.0).sqrt(), 0.0)
