"""The score itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fairweight.metagradient.solve import WeightForm


@dataclass(frozen=True)
class RawMean(WeightForm):
    """The score itself multiplies the loss, and the batch's mean is taken; starts at 1."""

    name: ClassVar[str] = "raw-mean"
    start: ClassVar[float] = 1.0
    smallest: float = 0.05  # a weight of 0 would leave no way back

    def weights(self, scores: Tensor) -> Tensor:
        """The scores, as shares of their sum: for reports; training uses `total`."""  # [B]
        return scores / scores.sum()

    def total(self, scores: Tensor, losses: Tensor) -> Tensor:
        return (scores.to(losses.dtype) * losses).mean()

    def limit(self, scores: Tensor) -> Tensor:
        return scores.clamp_min(self.smallest)
