"""A smooth discrepancy."""

from __future__ import annotations

from torch import Tensor

from fairweight.objectives import Objective
from fairweight.objectives._groups import group_losses


class LossVariance(Objective):
    """Variance of the group losses: every group pulls at once, so its gradient is steadier than that of max − min."""

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The variance over groups; 0 where one group is present."""  # []
        by_group = group_losses(losses, groups)
        return by_group._replace(loss=(by_group.loss - by_group.mean()).square()).mean()
