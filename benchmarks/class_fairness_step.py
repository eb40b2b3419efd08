"""A score step as long as the exemplars agree: the prototype that benchmarks/class_fairness.py tries."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight import FORML
from fairweight.metagradient import ForwardPass, Mode, Rates, exemplar_point, pull
from fairweight.methods.score_step import AdaptiveStep, halves
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

    def _look(self, done: ForwardPass, exemplar: Batch, rates: Rates, mode: Mode) -> Tensor:
        first, second = (self._pull(done, exemplar.take(half), rates, mode) for half in halves(exemplar))
        labels = done.batch.labels
        agreed = _cosine(first, second).to(done.losses.dtype)
        self.score_step.hear(agreed)
        if self._ties is not None:
            self._ties.step.hear(_cosine(by_label(first, labels), by_label(second, labels)))
        return agreed

    def _pull(self, done: ForwardPass, exemplar: Batch, rates: Rates, mode: Mode) -> Tensor:
        """The batch's centred pull from these exemplars."""  # [B]
        here = {name: p.detach().requires_grad_(name in rates) for name, p in done.parameters.items()}
        point = exemplar_point(done, here, exemplar, self.objective, by={name: here[name] for name in rates})
        found = pull(done, {name: v * rates[name] for name, v in point.direction.items()}, mode).double()
        return found - found.mean()


def by_label(values: Tensor, labels: Tensor) -> Tensor:
    """Mean over the members of each label, 0 where it has none."""  # [K]
    width = int(labels.max()) + 1
    total = values.new_zeros(width).index_add(0, labels, values)
    return total / torch.bincount(labels, minlength=width).clamp_min(1)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) / (a.norm() * b.norm()).clamp_min(1e-150)
