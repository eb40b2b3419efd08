"""Inverse squares."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairweight.metagradient.solve import WeightForm


@dataclass(frozen=True)
class InverseSquare(WeightForm):
    """Weight 1 / w_i^2, divided by its sum over the batch, with an L1 pull on the scores (HALO); starts at 1."""

    name: ClassVar[str] = "inverse-square"
    start: ClassVar[float] = 1.0
    penalty: float = 1e-8
    smallest: float = 0.1  # the gradient grows as w^-3

    def weights(self, scores: Tensor) -> Tensor:
        inverse = scores.abs().clamp_min(self.smallest).pow(-2)
        return inverse / inverse.sum()

    def penalty_gradient(self, scores: Tensor) -> Tensor:
        return self.penalty * scores.sign()

    def limit(self, scores: Tensor) -> Tensor:
        return torch.where(scores.abs() < self.smallest, self.smallest, scores)  # the weight has a pole at 0
