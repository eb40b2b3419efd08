"""From a forward pass to each score's gradient: the virtual step, the objective there, and the pull back at θ.

`WeightForm` says how scores become weights: the paper's softmax over the batch; its appendix is paper/weight_forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from fairweight import catalog
from fairweight.errors import BadInput, LossNotFinite, UnknownName
from fairweight.metagradient import difference, double_backward, passes
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.model import Parameters, norms_frozen
from fairweight.metagradient.passes import ForwardPass, Mode, Solution, pull_by_tangent
from fairweight.types import Batch, ObjectiveFunction

# Of the virtual step, by parameter; one without a rate stays where it is.
Rates = Mapping[str, float | Tensor]


def solve(
    done: ForwardPass, exemplar: Batch, scores: Tensor, objective: ObjectiveFunction, rates: Rates, mode: Mode,
    form: WeightForm, *, running_statistics: bool = False, at_rest: bool = False,
) -> Solution:  # fmt: skip
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
        pulled = pull_by_tangent(done, moved)
    else:
        moved = pulled = scaled_pull(done, point.direction, rates, mode)
    return Solution(form.gradient(scores, done, moved), point.value, point.losses, pulled)


def displaced(parameters: Parameters, slope: Parameters, rates: Rates) -> Parameters:
    """The parameters after the virtual step: θ − rate · slope."""

    def moved(p: Tensor, rate: float | Tensor, slope: Tensor) -> Tensor:
        return p - rate * slope if isinstance(rate, Tensor) else torch.sub(p, slope, alpha=rate)  # in one go

    return {name: moved(p, rates[name], slope[name]) if name in rates else p for name, p in parameters.items()}


def scaled(direction: Parameters, rates: Rates) -> Parameters:
    """A direction with each parameter's part times its rate."""
    return {name: v * rates[name] for name, v in direction.items()}


def scaled_pull(done: ForwardPass, direction: Parameters, rates: Rates, mode: Mode) -> Tensor:
    """The pull along a direction times the rates."""  # [B]
    common = list({rates[name] for name in direction})
    if len(common) == 1 and not isinstance(common[0], Tensor) and (found := done.pull(direction)) is not None:
        return common[0] * found  # linear: [B] products instead of one for each entry of the parameters
    return pull(done, scaled(direction, rates), mode)


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
    if len(done.batch) == 0:  # a rank's part of a small batch
        return done.logits.detach()
    ways = {"difference": difference.tangent, "double-backward": double_backward.tangent}
    return ways.get(mode.name, forward_tangent)(done, direction)


@dataclass(frozen=True)
class ExemplarPoint:
    """The objective at chosen parameters."""

    value: Tensor  # []
    losses: Tensor  # [E]
    direction: Parameters  # its gradient


def exemplar_point(
    done: ForwardPass, there: Parameters, exemplar: Batch, objective: ObjectiveFunction, *, by: Parameters,
    frozen: bool = False, keep: bool = False, among: Tensor | None = None,
) -> ExemplarPoint:  # fmt: skip
    """The objective on the exemplar batch at these parameters, and its gradient by those of them that are named.

    frozen: batch norm uses its running statistics. keep: the graph behind the parameters is needed again. among: the
    objective is that of the exemplars at these positions, all of which are run.
    """
    everyone = done.exemplars(exemplar)

    def backward(logits: Tensor) -> ExemplarPoint:
        if done.check:
            passes.check_labels(logits, exemplar.labels, "exemplar")
        losses = done.exemplar_losses(passes.per_sample(done.loss, logits, exemplar.labels))
        counted = (losses, everyone) if among is None else (losses[among], everyone.take(among))
        value = evaluate(objective, *counted)
        check = done.check and done.loss_scale is None  # a scale that is too large is the scaler's to find out
        if check:
            check_finite([value], "is not finite after the look-ahead", "lower the learning rate")
        if value.requires_grad:
            direction = done.gradients(value, by, keep=keep)
        else:  # an objective that is constant here
            direction = {name: torch.zeros_like(p) for name, p in by.items()}
        direction = done.summed(direction)
        if check:
            said = "is finite and its gradient is not, as at the root of 0"
            check_finite(direction.values(), said, "keep the objective smooth there, for example with clamp_min")
        return ExemplarPoint(value.detach(), losses.detach(), direction)

    with torch.enable_grad(), norms_frozen(done.model) if frozen else nullcontext():
        return done.run(there, exemplar, backward)


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

    def gradient(self, scores: Tensor, done: ForwardPass, moved: Tensor) -> Tensor:
        """d objective / d scores, given how the losses (logits, where it sees them) move along the virtual step.

        The objective changes by minus the change of the total along that direction, so that the mixed derivative of
        the total by losses and scores is all that is needed.
        """  # [B]
        with torch.enable_grad():
            w = scores.detach().requires_grad_()
            if self.sees_logits:
                at = passes.in_full(done.logits.detach()).requires_grad_()
                total = self.train_loss(w, replace(done, logits=at, losses=done.loss(at, done.batch.labels)))
            else:
                at = done.losses.detach().requires_grad_()
                total = self.total(w, at)
            (slope,) = torch.autograd.grad(total, at, create_graph=True)
            (mixed,) = torch.autograd.grad((slope * moved).sum(), w)
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

    def gradient(self, scores: Tensor, done: ForwardPass, moved: Tensor) -> Tensor:
        p = self.weights(scores.detach())
        return -p * (moved - (p * moved).sum())


def weight_form(form: str | WeightForm) -> WeightForm:
    """The form of that name, or the form itself."""
    if isinstance(form, WeightForm):
        return form
    if form == Softmax.name:
        return Softmax()
    if form not in (others := catalog.names("paper.weight_forms")):
        raise UnknownName(f"{form!r} is not a weight form; choose from: softmax, {', '.join(others)}.")
    return cast(WeightForm, catalog.load("paper.weight_forms", form)())
