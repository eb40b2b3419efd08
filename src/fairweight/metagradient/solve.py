"""From a forward pass to each score's gradient: the virtual step, the objective there, and the pull back at θ.

`WeightForm` says how scores become weights: the paper's softmax over the batch; its appendix is paper/weight_forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from fairweight.errors import BadInput, LossNotFinite
from fairweight.metagradient import difference, double_backward, passes
from fairweight.metagradient.double_backward import mixed
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.model import Parameters
from fairweight.metagradient.passes import ForwardPass, Mode, Solution, pull_by_tangent
from fairweight.metagradient.running_statistics import norms_frozen
from fairweight.types import Batch, ObjectiveFunction

# Of the virtual step, by parameter; one without a rate stays where it is.
Rates = Mapping[str, float | Tensor]


def solve(
    done: ForwardPass, exemplar: Batch, scores: Tensor, objective: ObjectiveFunction, rates: Rates, mode: Mode,
    form: WeightForm, *, running_statistics: bool = False, at_rest: bool = False,
) -> Solution:  # fmt: skip
    """The score gradient g for a forward pass that has been made; its graph is kept for the real step.

    at_rest: take the objective's gradient at θ instead of θ̃, an approximation. running_statistics: use those of
    batch norm in the exemplar pass.
    """
    moving = {name: p for name, p in done.parameters.items() if name in rates}
    twice = mode.name == "double-backward" and not at_rest and done.whole  # the look-ahead is differentiated itself
    w, ahead = scores.detach().requires_grad_(twice), done.parameters
    if not at_rest:
        with torch.enable_grad():
            total = own_total(form, w, done)
            total = form.weights(w) if total is None else total
        slope = done.slopes(total, moving, create_graph=twice)  # ∇Σ p_i l_i
        with torch.set_grad_enabled(twice):
            ahead = displaced(ahead, slope, rates)  # θ̃
    if twice:
        point = exemplar_point(done, ahead, exemplar, objective, by={"scores": w}, frozen=running_statistics, keep=True)
        gradient, pulled = point.direction["scores"] + form.penalty_gradient(scores), None
    else:
        ahead = {name: p.detach() for name, p in ahead.items()}
        by = {name: ahead[name].requires_grad_() for name in moving}
        point = exemplar_point(done, ahead, exemplar, objective, by=by, frozen=running_statistics)  # v
        if form.sees_logits:
            moved = tangent(done, {name: v * rates[name] for name, v in point.direction.items()}, mode)
            pulled = pull_by_tangent(done, moved)
        else:
            moved = pulled = pull(done, point.direction, mode, rates)  # s
        gradient = form.gradient(scores, done, moved)  # g
    if done.check and done.loss_scale is None:  # a scale that is too large is the scaler's to find out
        check_finite(point.value, gradient)
    return Solution(gradient, point.value, point.losses, pulled)


def displaced(parameters: Parameters, slope: Parameters, rates: Rates) -> Parameters:
    """The parameters after the virtual step: θ − rate · slope."""
    ahead = dict(parameters)
    for name, along in slope.items():
        p, rate = parameters[name], rates[name]
        ahead[name] = p - rate * along if isinstance(rate, Tensor) else torch.sub(p, along, alpha=rate)  # in one go
    return ahead


def pull(done: ForwardPass, direction: Parameters, mode: Mode, rates: Rates | None = None) -> Tensor:
    """Directional derivative of each sample's train loss at θ; rates: along the direction times these."""  # [B]
    if rates is not None:
        used = list({rates[name] for name in direction})
        if len(used) == 1 and not isinstance(used[0], Tensor) and (pulled := done.pull(direction)) is not None:
            return used[0] * pulled  # linear: [B] products instead of one for each entry of the parameters
        direction = {name: v * rates[name] for name, v in direction.items()}

    def find(part: ForwardPass) -> Tensor:
        pulled = part.pull(direction)
        return pull_by_tangent(part, tangent(part, direction, mode)) if pulled is None else pulled

    return done.each(find, graph=mode.name == "double-backward")


def tangent(done: ForwardPass, direction: Parameters, mode: Mode) -> Tensor:
    """How the logits of the train batch move along the direction."""  # [B, K]
    other_ways = {"difference": difference.tangent, "double-backward": double_backward.tangent}
    way = other_ways.get(mode.name, forward_tangent)
    return done.each(
        lambda part: way(part, direction) if len(part.batch) else part.logits.detach(),
        graph=mode.name == "double-backward",
    )


class ExemplarPoint(NamedTuple):
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
    every = done.exemplars(exemplar)

    def backward(logits: Tensor) -> ExemplarPoint:
        if done.check:
            passes.check_labels(logits, exemplar.labels, "exemplar")
        losses = done.exemplar_losses(passes.per_sample(done.loss, logits, exemplar.labels))
        counted = (losses, every) if among is None else (losses[among], every.take(among))
        value = evaluate(objective, *counted)
        if value.requires_grad:
            direction = done.gradients(value, by, keep=keep)
        else:  # an objective that is constant here
            direction = {name: torch.zeros_like(p) for name, p in by.items()}
        return ExemplarPoint(value.detach(), losses.detach(), done.summed(direction))

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


def check_finite(value: Tensor, found: Tensor) -> None:
    """Refuse an objective, or what was found from its gradient, [B], that is not finite (reads it: a wait on a GPU)."""
    what, instead = "is not finite after the look-ahead", "lower the learning rate"
    if math.isfinite(float(value)):
        if math.isfinite(float(found.sum())) or bool(torch.isfinite(found).all()):  # a sum may overflow
            return
        what = "is finite and its gradient is not, as at the root of 0"
        instead = "keep the objective smooth there, for example with clamp_min"
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

        def of_logits(w: Tensor, logits: Tensor) -> Tensor:
            return self.train_loss(w, replace(done, logits=logits, losses=done.loss(logits, done.batch.labels)))

        if self.sees_logits:
            return self.penalty_gradient(scores) - mixed(of_logits, passes.in_full(done.logits), scores, moved)
        return self.penalty_gradient(scores) - mixed(self.total, done.losses, scores, moved)

    def penalty_gradient(self, scores: Tensor) -> Tensor:
        """Gradient of what is added to the objective for the scores' own sake."""  # [B]
        return torch.zeros_like(scores)

    def limit(self, scores: Tensor) -> Tensor:
        """Scores kept where the form is defined."""  # [B]
        return scores


def own_total(form: WeightForm, scores: Tensor, done: ForwardPass) -> Tensor | None:
    """The total of a form that has one of its own; None: it is the sum of the losses with the form's weights."""
    kind = type(form)
    summed = kind.total is WeightForm.total and kind.train_loss is WeightForm.train_loss
    return None if summed else form.train_loss(scores, done)


@dataclass(frozen=True)
class Softmax(WeightForm):
    """Weight p_i = softmax of the batch's scores (the paper's)."""

    name: ClassVar[str] = "softmax"

    def weights(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores, dim=0)

    def gradient(self, scores: Tensor, done: ForwardPass, moved: Tensor) -> Tensor:
        p = self.weights(scores.detach())
        return p * ((p * moved).sum() - moved)
