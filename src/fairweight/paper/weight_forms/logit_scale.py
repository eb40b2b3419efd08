"""Scaled logits."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fairweight.metagradient.passes import ForwardPass
from fairweight.metagradient.solve import WeightForm


@dataclass(frozen=True)
class LogitScale(WeightForm):
    """Each sample's logits are multiplied by its score before the loss; starts at 1."""

    name: ClassVar[str] = "logit-scale"
    start: ClassVar[float] = 1.0
    sees_logits: ClassVar[bool] = True
    smallest: float = 0.05  # a scale of 0 would make a sample unlearnable for good

    def weights(self, scores: Tensor) -> Tensor:
        """The scales, as shares of their sum: for reports; training uses `train_loss`."""  # [B]
        return scores / scores.sum()

    def train_loss(self, scores: Tensor, done: ForwardPass) -> Tensor:
        scale = scores.to(done.logits.dtype).reshape(-1, *([1] * (done.logits.ndim - 1)))
        return done.loss(done.logits * scale, done.batch.labels).mean()

    def limit(self, scores: Tensor) -> Tensor:
        return scores.clamp_min(self.smallest)
