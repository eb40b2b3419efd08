"""From a forward pass to each score's gradient: the virtual step, the objective there, and the pull back at θ.

`WeightForm` says how scores become weights: the paper's softmax over the batch; its appendix is paper/weight_forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from fairweight import catalog
from fairweight.errors import BadInput, LossNotFinite, UnknownName
from fairweight.metagradient import difference, double_backward
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.model import Parameters, norms_frozen
from fairweight.metagradient.passes import (
    ForwardPass,
    Mode,
    Solution,
    check_labels,
    dense,
    in_full,
    per_sample,
    pull_by_tangent,
)
from fairweight.types import Batch, ObjectiveFunction

# Of the virtual step, by parameter; one without a rate stays where it is.
Rates = Mapping[str, float | Tensor]


def solve(
    done: ForwardPass,
    exemplar: Batch,
    scores: Tensor,
    objective: ObjectiveFunction,
    rates: Rates,
    mode: Mode,
    form: WeightForm,
    *,
    running_statistics: bool = False,
    at_rest: bool = False,
) -> Solution:
    """The score gradient for a forward pass that has been made; its graph is kept for the real step.

    at_rest: take the objective's gradient at θ instead of θ̃, an approximation. running_statistics: use those of
    batch norm in the exemplar pass.
    """
    moving = {name: p for name, p in done.parameters.items() if name in rates}
    if mode.name == "double-backward" and not at_rest and done.whole:
        with torch.enable_grad():
            w = scores.detach().requires_grad_()
            slope = done.slopes(form.train_loss(w, done), moving, create_graph=True)
            there = displaced(done.parameters, slope, rates)
            point = exemplar_point(
                done, there, exemplar, objective, by={"scores": w}, frozen=running_statistics, keep=True
            )
        return Solution(point.direction["scores"] + form.penalty_gradient(scores), point.value, point.losses)
    there = done.parameters
    if not at_rest:
        with torch.enable_grad():
            total = form.train_loss(scores.detach(), done)
        there = displaced(there, done.slopes(total, moving), rates)
    there = {name: p.detach().requires_grad_(name in moving) for name, p in there.items()}
    by = {name: there[name] for name in moving}
    point = exemplar_point(done, there, exemplar, objective, by=by, frozen=running_statistics)
    if form.sees_logits:
        moved = tangent(done, scaled(point.direction, rates), mode)
        return Solution(
            form.gradient_by_tangent(scores, done, moved), point.value, point.losses, pull_by_tangent(done, moved)
        )
    pulled = scaled_pull(done, point.direction, rates, mode)
    return Solution(form.gradient(scores, done.losses, pulled), point.value, point.losses, pulled)


def displaced(parameters: Parameters, slope: Parameters, rates: Rates) -> Parameters:
    """The parameters after the virtual step: θ − rate · slope."""
    return {name: _minus(p, rates[name], slope[name]) if name in rates else p for name, p in parameters.items()}


def _minus(p: Tensor, rate: float | Tensor, slope: Tensor) -> Tensor:
    return p - rate * slope if isinstance(rate, Tensor) else torch.sub(p, slope, alpha=rate)  # in one go


def scaled(direction: Parameters, rates: Rates) -> Parameters:
    """A direction with each parameter's part times its rate."""
    return {name: v * rates[name] for name, v in direction.items()}


def scaled_pull(done: ForwardPass, direction: Parameters, rates: Rates, mode: Mode) -> Tensor:
    """The pull along a direction times the rates."""  # [B]
    found = None
    common = {rates[name] for name in direction if not isinstance(rates[name], Tensor)}
    if len(common) == 1 and not any(isinstance(rates[name], Tensor) for name in direction):
        found = done.pull(direction)  # linear: [B] products instead of one for each entry of the parameters
    return pull(done, scaled(direction, rates), mode) if found is None else common.pop() * found


def pull(done: ForwardPass, direction: Parameters, mode: Mode) -> Tensor:
    """Directional derivative of each sample's train loss at θ."""  # [B]

    def find(part: ForwardPass) -> Tensor:
        found = part.pull(direction)
        return pull_by_tangent(part, _tangent(part, direction, mode)) if found is None else found

    return done.each(find)


def tangent(done: ForwardPass, direction: Parameters, mode: Mode) -> Tensor:
    """How the logits of the train batch move along the direction."""  # [B, K]
    return done.each(lambda part: _tangent(part, direction, mode))


def _tangent(done: ForwardPass, direction: Parameters, mode: Mode) -> Tensor:
    ways = {"difference": difference.tangent, "double-backward": double_backward.tangent}
    return ways.get(mode.name, forward_tangent)(done, direction)


@dataclass(frozen=True)
class ExemplarPoint:
    """The objective at chosen parameters."""

    value: Tensor  # []
    losses: Tensor  # [E]
    direction: Parameters  # its gradient


def exemplar_point(
    done: ForwardPass,
    there: Parameters,
    exemplar: Batch,
    objective: ObjectiveFunction,
    *,
    by: Parameters,
    frozen: bool = False,
    keep: bool = False,
    among: Tensor | None = None,
) -> ExemplarPoint:
    """The objective on the exemplar batch at these parameters, and its gradient by those of them that are named.

    frozen: batch norm uses its running statistics. keep: the graph behind the parameters is needed again. among: the
    objective is that of the exemplars at these positions, all of which are run.
    """
    everyone = done.exemplars(exemplar)

    def backward(logits: Tensor) -> ExemplarPoint:
        if done.check:
            check_labels(logits, exemplar.labels, "exemplar")
        losses = per_sample(done.loss, logits, exemplar.labels)
        losses = done.exemplar_losses(losses)
        value = evaluate(objective, losses, everyone) if among is None else _among(objective, losses, everyone, among)
        check = done.check and done.loss_scale is None  # a scale that is too large is the scaler's to find out
        if check:
            check_finite([value], "is not finite after the look-ahead", "lower the learning rate")
        if value.requires_grad:
            found = torch.autograd.grad(
                done.scaled(value), list(by.values()), retain_graph=keep, allow_unused=True, materialize_grads=True
            )
            direction = {name: done.unscaled(dense(v)) for name, v in zip(by, found, strict=True)}
        else:  # an objective that is constant here
            direction = {name: torch.zeros_like(p) for name, p in by.items()}
        direction = done.summed(direction)
        if check:
            said = "is finite and its gradient is not, as at the root of 0"
            check_finite(direction.values(), said, "keep the objective smooth there, for example with clamp_min")
        return ExemplarPoint(value.detach(), losses.detach(), direction)

    with torch.enable_grad(), norms_frozen(done.model, frozen):
        return done.run(there, exemplar, backward)


def _among(objective: ObjectiveFunction, losses: Tensor, exemplar: Batch, at: Tensor) -> Tensor:
    return evaluate(objective, losses[at], exemplar.take(at))


def evaluate(objective: ObjectiveFunction, losses: Tensor, exemplar: Batch) -> Tensor:
    """The objective's value; a plain function of (losses, groups) sees the samples whose group is known."""  # []
    on = getattr(objective, "on", None)
    if on is not None:
        value = on(losses, exemplar)
    else:
        groups = exemplar.compared()
        if exemplar.groups is not None:
            known = groups >= 0
            losses, groups = losses[known], groups[known]
        value = objective(losses, groups)
    if not isinstance(value, Tensor) or value.ndim != 0:
        raise BadInput("The objective must return a scalar tensor; reduce it, for example with .mean().")
    return value


def check_finite(values: Iterable[Tensor], what: str, instead: str) -> None:
    """Refuse an objective, or its gradient, that is NaN or infinite (reads it: a wait on a GPU)."""
    held = list(values)
    # a sum costs a tenth of a look at every entry; one that overflows says nothing
    sums = torch.stack([value.detach().sum() for value in held])
    if not bool(torch.isfinite(sums).all()) and not all(bool(torch.isfinite(value).all()) for value in held):
        raise LossNotFinite(
            f"The objective on the exemplar batch {what}; nothing was moved. Give LookAhead(lr=...) a smaller rate, "
            f"or {instead}."
        )


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
