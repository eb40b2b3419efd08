"""A score step as long as the exemplars agree: the prototype that benchmarks/class_fairness.py tries."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight import FORML
from fairweight.metagradient import Displacement, ForwardPass, exemplar_point, pull, tangent
from fairweight.methods._agreement import halves
from fairweight.methods.score_step import AdaptiveStep
from fairweight.types import Batch


class ReliableStep(AdaptiveStep):
    """AdaptiveStep(heed=power) that keeps what it made of each look."""

    def __init__(self, rate: float = 0.3, power: float = 1.0) -> None:
        super().__init__(rate, heed=power)
        self.reliabilities: list[float] = []

    def hear(self, agreement: Tensor) -> None:
        """As ever, and note how reliable the pull is by now."""
        super().hear(agreement)
        self.reliabilities.append(float(self.reliability(agreement.device)))

    def fresh(self) -> ReliableStep:
        """The same rule without memory."""
        return ReliableStep(self.rate, self.heed)


class AgreeingFORML(FORML):
    """FORML whose scores per class hear how far the halves' pulls agree class by class, not sample by sample.

    When the settings named "agreeing" and "both" were run, a step heard a look before it moved, not after.
    """

    def _agreement(self, done: ForwardPass, exemplar: Batch, displacement: Displacement) -> Tensor | None:
        if not self._looks:
            return None
        first, second = (self._pull(done, exemplar.take(half), displacement) for half in halves(exemplar))
        labels = done.batch.labels
        self._by_label = _cosine(by_label(first, labels), by_label(second, labels))
        return _cosine(first, second).to(done.losses.dtype)

    def _hear(self, agreed: Tensor | None) -> None:
        if agreed is not None:
            self.score_step.hear(agreed)
            if self._ties is not None:
                self._ties.step.hear(self._by_label)

    def _pull(self, done: ForwardPass, exemplar: Batch, displacement: Displacement) -> Tensor:
        """The batch's centred pull from these exemplars."""  # [B]
        assert self._mode is not None
        moving = displacement.scale.keys()
        point = exemplar_point(done, done.parameters, exemplar, self.objective, moving=moving, check=False)
        moved = tangent(done, displacement.along(point.direction), self._mode)
        found = pull(done.logits.detach(), moved, done.batch.labels, done.loss).double()
        return found - found.mean()


def by_label(values: Tensor, labels: Tensor) -> Tensor:
    """Mean over the members of each label, 0 where it has none."""  # [K]
    width = int(labels.max()) + 1
    total = values.new_zeros(width).index_add(0, labels, values)
    return total / torch.bincount(labels, minlength=width).clamp_min(1)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) / (a.norm() * b.norm()).clamp_min(1e-150)
