"""A closer surrogate for equal true positive rates."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.objectives.equal_opportunity import EqualOpportunityLoss


class EqualOpportunityRate(EqualOpportunityLoss):
    """Range over groups of the mean probability that positives are given: a smooth true positive rate.

    A loss of cross entropy is minus the log of that probability. Its mean is led by the few samples that the model
    gets most wrong, and a rate is not: each sample counts at most 1 here.
    """

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Range over groups; the samples given count as positives."""  # []
        return super().__call__(-torch.expm1(-losses), groups)  # 1 - exp(-loss), exact where it is small
