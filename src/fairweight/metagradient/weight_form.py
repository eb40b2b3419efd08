"""How scores become weights: by softmax over the batch, as they are, by a sigmoid, inverse squares or scaled logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairweight.errors import UnknownName
from fairweight.metagradient.passes import in_full
from fairweight.types import Loss


class WeightForm:
    """A map from the batch's scores to its weighted loss; subclasses write `weights`, or `total`."""

    name: ClassVar[str]
    start: ClassVar[float] = 0.0  # the score that means "counts like all others"

    def weights(self, scores: Tensor) -> Tensor:
        """What multiplies the losses; sums to 1 over the batch."""  # [B]
        raise NotImplementedError

    def total(self, scores: Tensor, logits: Tensor, losses: Tensor, labels: Tensor, loss: Loss) -> Tensor:
        """The weighted train loss."""  # []
        return (self.weights(scores) * losses).sum()

    def gradient(
        self,
        scores: Tensor,
        logits: Tensor,
        tangent: Tensor,
        labels: Tensor,
        loss: Loss,
        pulled: Tensor | None = None,
    ) -> Tensor:
        """d objective / d scores, given how the logits move along the scaled direction (and the pull, where known).

        The objective changes by minus the change of the total along that direction, so the mixed
        derivative of the total is all that is needed: automatic differentiation of the last layer alone.
        """  # [B]
        with torch.enable_grad():
            w = scores.detach().requires_grad_()
            z = in_full(logits.detach()).requires_grad_()
            total = self.total(w, z, loss(z, labels), labels, loss)
            (slope,) = torch.autograd.grad(total, z, create_graph=True)  # [B, K]
            (mixed,) = torch.autograd.grad((slope * tangent).sum(), w)
        return -mixed + self.penalty_gradient(scores)

    def penalty_gradient(self, scores: Tensor) -> Tensor:
        """Gradient of what is added to the objective for the scores' own sake."""  # [B]
        return torch.zeros_like(scores)

    def limit(self, scores: Tensor) -> Tensor:
        """Scores kept where the form is defined."""  # [B]
        return scores


@dataclass(frozen=True)
class Softmax(WeightForm):
    """Weight p_i = softmax of the batch's scores (the paper's)."""

    name: ClassVar[str] = "softmax"

    def weights(self, scores: Tensor) -> Tensor:
        """Softmax over the batch."""  # [B]
        return torch.softmax(scores, dim=0)

    def gradient(
        self,
        scores: Tensor,
        logits: Tensor,
        tangent: Tensor,
        labels: Tensor,
        loss: Loss,
        pulled: Tensor | None = None,
    ) -> Tensor:
        """The closed form -p_i (s_i - sum_j p_j s_j), with s the pull."""  # [B]
        p = self.weights(scores.detach())
        s = pull(logits, tangent, labels, loss) if pulled is None else pulled
        return -p * (s - (p * s).sum())


@dataclass(frozen=True)
class LogitScale(WeightForm):
    """Each sample's logits are multiplied by its score before the loss (the paper's appendix); starts at 1."""

    name: ClassVar[str] = "logit-scale"
    start: ClassVar[float] = 1.0
    smallest: float = 0.05  # a scale of 0 would make a sample unlearnable for good

    def weights(self, scores: Tensor) -> Tensor:
        """The scales, as shares of their sum: for reports; training uses `total`."""  # [B]
        return scores / scores.sum()

    def total(self, scores: Tensor, logits: Tensor, losses: Tensor, labels: Tensor, loss: Loss) -> Tensor:
        """Mean loss of the scaled logits."""  # []
        scale = scores.to(logits.dtype).reshape(-1, *([1] * (logits.ndim - 1)))
        return loss(logits * scale, labels).mean()

    def limit(self, scores: Tensor) -> Tensor:
        """Scales stay positive."""  # [B]
        return scores.clamp_min(self.smallest)


@dataclass(frozen=True)
class InverseSquare(WeightForm):
    """Weight 1 / w_i^2, divided by its sum over the batch, with an L1 pull on the scores (HALO); starts at 1."""

    name: ClassVar[str] = "inverse-square"
    start: ClassVar[float] = 1.0
    penalty: float = 1e-8
    smallest: float = 0.1  # the gradient grows as w^-3

    def weights(self, scores: Tensor) -> Tensor:
        """Shares of 1 / w^2."""  # [B]
        inverse = scores.abs().clamp_min(self.smallest).pow(-2)
        return inverse / inverse.sum()

    def penalty_gradient(self, scores: Tensor) -> Tensor:
        """Of penalty * sum |w_i|."""  # [B]
        return self.penalty * scores.sign()

    def limit(self, scores: Tensor) -> Tensor:
        """Scores stay clear of 0, where the weight has a pole."""  # [B]
        return torch.where(scores.abs() < self.smallest, self.smallest, scores)


@dataclass(frozen=True)
class RawMean(WeightForm):
    """The score itself multiplies the loss, and the batch's mean is taken; starts at 1."""

    name: ClassVar[str] = "raw-mean"
    start: ClassVar[float] = 1.0
    smallest: float = 0.05  # a weight of 0 would leave no way back

    def weights(self, scores: Tensor) -> Tensor:
        """The scores, as shares of their sum: for reports; training uses `total`."""  # [B]
        return scores / scores.sum()

    def total(self, scores: Tensor, logits: Tensor, losses: Tensor, labels: Tensor, loss: Loss) -> Tensor:
        """Mean of score times loss."""  # []
        return (scores.to(losses.dtype) * losses).mean()

    def limit(self, scores: Tensor) -> Tensor:
        """Weights stay positive."""  # [B]
        return scores.clamp_min(self.smallest)


@dataclass(frozen=True)
class Sigmoid(WeightForm):
    """Twice the sigmoid of the score multiplies the loss, from 0 to 2, and the batch's mean is taken."""

    name: ClassVar[str] = "sigmoid"

    def weights(self, scores: Tensor) -> Tensor:
        """The sigmoids, as shares of their sum: for reports; training uses `total`."""  # [B]
        each = torch.sigmoid(scores)
        return each / each.sum()

    def total(self, scores: Tensor, logits: Tensor, losses: Tensor, labels: Tensor, loss: Loss) -> Tensor:
        """Mean of weight times loss; the plain mean at the start."""  # []
        return (2 * torch.sigmoid(scores).to(losses.dtype) * losses).mean()


def pull(logits: Tensor, tangent: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """Directional derivative of each sample's loss, from how its logits move."""  # [B]
    with torch.enable_grad():
        z = in_full(logits.detach()).requires_grad_()
        losses = loss(z, labels)
        (slope,) = torch.autograd.grad(losses.sum(), z)  # a loss sees its own row alone
    return (slope * tangent).reshape(len(labels), -1).sum(dim=1).to(losses.dtype)


def weight_form(form: str | WeightForm) -> WeightForm:
    """The form of that name, or the form itself."""
    if isinstance(form, WeightForm):
        return form
    forms = (Softmax(), LogitScale(), InverseSquare(), RawMean(), Sigmoid())
    known: dict[str, WeightForm] = {f.name: f for f in forms}
    if form not in known:
        raise UnknownName(f"{form!r} is not a weight form; choose from: {', '.join(known)}.")
    return known[form]
