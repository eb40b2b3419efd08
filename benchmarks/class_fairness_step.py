"""A score step as long as the exemplars agree: the prototype that benchmarks/class_fairness.py tries."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight import FORML
from fairweight.metagradient import Displacement, ForwardPass, exemplar_point, pull, tangent
from fairweight.reweight._agreement import halves
from fairweight.reweight._score_step import AdaptiveStep
from fairweight.types import Batch


def reliability(cosine: float) -> float:
    """Of the whole exemplar batch's pull, from the cosine between those of its halves (Spearman-Brown)."""
    return 2 * cosine / (1 + cosine) if cosine > 0 else 0.0


class ReliableStep(AdaptiveStep):
    """AdaptiveStep times (a power of) the reliability of the pull, from a running mean of the cosines that it hears."""

    def __init__(self, rate: float = 0.3, decay: float = 0.9, power: float = 1.0) -> None:
        super().__init__(rate)
        self.decay, self.power = decay, power
        self._heard = [0.0, 0.0]  # decayed sums of the cosines and of 1
        self.reliabilities: list[float] = []

    def hear(self, cosine: float) -> None:
        """Take another look into account."""
        kept = zip(self._heard, (cosine, 1.0), strict=True)
        self._heard = [self.decay * old + (1 - self.decay) * new for old, new in kept]
        self.reliabilities.append(reliability(self._heard[0] / self._heard[1]))

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        """AdaptiveStep's move, scaled; none before the first look."""  # [B]
        scale = self.reliabilities[-1] ** self.power if self.reliabilities else 0.0
        return scale * super().move(gradient, weights, lr, visits)

    def fresh(self) -> ReliableStep:
        """The same rule without memory."""
        return ReliableStep(self.rate, self.decay, self.power)


class AgreeingFORML(FORML):
    """FORML whose score steps hear how far the halves of the exemplar batch agree, sample by sample and by label."""

    def _agreement(self, done: ForwardPass, exemplar: Batch, displacement: Displacement) -> Tensor | None:
        if self.steps % self.agreement_every:
            return None
        first, second = (self._pull(done, exemplar.take(half), displacement) for half in halves(exemplar))
        cosine = _cosine(first, second)
        if isinstance(self.score_step, ReliableStep):
            self.score_step.hear(float(cosine))
        if self._ties is not None and isinstance(self._ties.step, ReliableStep):
            labels = done.batch.labels
            self._ties.step.hear(float(_cosine(by_label(first, labels), by_label(second, labels))))
        return cosine.to(done.losses.dtype)

    def _hear(self, agreed: Tensor | None) -> None:
        """Its steps have heard already, each of its own kind of agreement."""

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
