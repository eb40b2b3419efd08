"""How scores become weights: the contract, and the paper's softmax over the batch. Its appendix: paper/weight_forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from fairweight import catalog
from fairweight.errors import UnknownName
from fairweight.metagradient.passes import ForwardPass, in_full


class WeightForm:
    """A map from the batch's scores and losses to its weighted loss; subclasses write `weights`, or `total` too."""

    name: ClassVar[str]
    start: ClassVar[float] = 0.0  # the score that means "counts like all others"
    sees_logits: ClassVar[bool] = False  # the weighted loss is no function of the losses; then write `train_loss`

    def weights(self, scores: Tensor) -> Tensor:
        """What multiplies the losses; sums to 1 over the batch."""  # [B]
        raise NotImplementedError

    def total(self, scores: Tensor, losses: Tensor) -> Tensor:
        """The weighted train loss."""  # []
        return (self.weights(scores) * losses).sum()

    def train_loss(self, scores: Tensor, done: ForwardPass) -> Tensor:
        """The weighted train loss of a forward pass."""  # []
        return self.total(scores, done.losses)

    def gradient(self, scores: Tensor, losses: Tensor, pulled: Tensor) -> Tensor:
        """d objective / d scores, given the pull along the virtual step's scaled direction.

        The objective changes by minus the change of the total along that direction, so that the mixed derivative of
        the total by losses and scores is all that is needed.
        """  # [B]
        with torch.enable_grad():
            w, at = scores.detach().requires_grad_(), losses.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.total(w, at), at, create_graph=True)
            (mixed,) = torch.autograd.grad((slope * pulled).sum(), w)
        return -mixed + self.penalty_gradient(scores)

    def gradient_by_tangent(self, scores: Tensor, done: ForwardPass, tangent: Tensor) -> Tensor:
        """The same for a form that sees logits, given how these move."""  # [B]
        with torch.enable_grad():
            w, z = scores.detach().requires_grad_(), in_full(done.logits.detach()).requires_grad_()
            total = self.train_loss(w, done.at(z))
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
        return torch.softmax(scores, dim=0)

    def gradient(self, scores: Tensor, losses: Tensor, pulled: Tensor) -> Tensor:
        p = self.weights(scores.detach())
        return -p * (pulled - (p * pulled).sum())


def weight_form(form: str | WeightForm) -> WeightForm:
    """The form of that name, or the form itself."""
    if isinstance(form, WeightForm):
        return form
    if form == Softmax.name:
        return Softmax()
    if form not in (others := catalog.names("paper.weight_forms")):
        raise UnknownName(f"{form!r} is not a weight form; choose from: softmax, {', '.join(others)}.")
    return cast(WeightForm, catalog.load("paper.weight_forms", form)())
