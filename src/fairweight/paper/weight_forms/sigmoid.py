"""Sigmoids."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairweight.metagradient.solve import WeightForm


@dataclass(frozen=True)
class Sigmoid(WeightForm):
    """Twice the sigmoid of the score multiplies the loss, from 0 to 2, and the batch's mean is taken."""

    name: ClassVar[str] = "sigmoid"

    def weights(self, scores: Tensor) -> Tensor:
        """The sigmoids, as shares of their sum: for reports; training uses `total`."""  # [B]
        each = torch.sigmoid(scores)
        return each / each.sum()

    def total(self, scores: Tensor, losses: Tensor) -> Tensor:
        return (2 * torch.sigmoid(scores).to(losses.dtype) * losses).mean()
