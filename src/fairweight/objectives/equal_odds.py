"""A surrogate for equal true and false positive rates."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.objectives import Objective, group_losses
from fairweight.types import Batch


class EqualOddsLoss(Objective):
    """Variance of the group losses within each label, averaged over the labels."""

    within_labels = True

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Squared deviation of group losses from their mean, for samples of one label."""  # []
        return group_losses(losses, groups).variance()

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """Mean over the labels in the batch."""  # []
        groups = self.compared(exemplar)
        labels = torch.unique(exemplar.labels)
        spreads = [self(losses, groups.masked_fill(exemplar.labels != label, -1)) for label in labels]
        return torch.stack(spreads).mean() if spreads else losses.new_zeros(())
