"""A surrogate for equal true positive rates."""

from __future__ import annotations

from torch import Tensor

from fairweight.objectives import Objective, group_losses
from fairweight.types import Batch


class EqualOpportunityLoss(Objective):
    """Range of the group losses among samples of the positive label."""

    within_labels = True

    def __init__(self, positive: int = 1) -> None:
        self.positive = positive

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Range over groups; the samples given count as positives."""  # []
        by_group = group_losses(losses, groups)
        return by_group.largest() - by_group.smallest()

    def compared(self, exemplar: Batch) -> Tensor:
        """Groups of positives, -1 elsewhere."""  # [E]
        return super().compared(exemplar).masked_fill(exemplar.labels != self.positive, -1)
