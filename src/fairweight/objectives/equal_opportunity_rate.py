"""A closer surrogate for equal true positive rates."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.errors import MissingGroups
from fairweight.objectives import Objective, group_losses
from fairweight.types import Batch


class EqualOpportunityRate(Objective):
    """Range over groups of the mean probability that positives are given: a smooth true positive rate.

    A loss of cross entropy is minus the log of that probability. Its mean is led by the few samples that the model
    gets most wrong, and a rate is not: each sample counts at most 1 here.
    """

    def __init__(self, positive: int = 1) -> None:
        self.positive = positive

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Range over groups; the samples given count as positives."""  # []
        missed = group_losses(-torch.expm1(-losses), groups)  # 1 - exp(-loss), exact where it is small
        return missed.largest() - missed.smallest()

    def compared(self, exemplar: Batch) -> Tensor:
        """Groups of positives, -1 elsewhere."""  # [E]
        if exemplar.groups is None:
            raise MissingGroups("EqualOpportunityRate compares groups within a label; give Batch(groups=...).")
        return exemplar.groups.masked_fill(exemplar.labels != self.positive, -1)

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """Range over the groups of positives."""  # []
        return self(losses, self.compared(exemplar))
