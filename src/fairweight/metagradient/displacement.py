"""The virtual step from θ to θ̃, and the objective's gradient there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fairweight.errors import BadInput, LossNotFinite
from fairweight.metagradient._context import norms_frozen
from fairweight.metagradient.passes import ForwardPass, Parameters, check_labels, per_sample
from fairweight.types import Batch, Objective

# One number for all parameters, or one number or tensor for each by name.
Rate = float | Tensor | Mapping[str, float | Tensor]


@dataclass(frozen=True)
class Displacement:
    """θ̃ = θ + offset − scale ∘ ∇; a parameter without a scale stays where it is."""

    scale: Mapping[str, float | Tensor]
    offset: Mapping[str, Tensor] | None = None

    @classmethod
    def of(cls, parameters: Parameters, lr: Rate, *, reverse: bool = False) -> Displacement:
        """Bare gradient descent at this rate; ascent where reversed."""
        if isinstance(lr, Mapping):
            unknown = sorted(set(lr) - set(parameters))
            if unknown:
                raise BadInput(
                    f"lr names {unknown[0]!r}, which is no trainable parameter; use model.named_parameters()."
                )
            rates: dict[str, float | Tensor] = dict(lr)
        else:
            rates = dict.fromkeys(parameters, lr)
        return cls({name: -rate for name, rate in rates.items()} if reverse else rates)

    def within(self, names: Collection[str]) -> Displacement:
        """The same step with all parameters but these left where they are."""
        scale = {name: rate for name, rate in self.scale.items() if name in names}
        return Displacement(scale, self.offset)

    def moving(self, parameters: Parameters) -> Parameters:
        """Those of the parameters that the virtual step moves."""
        return {name: p for name, p in parameters.items() if name in self.scale}

    def along(self, direction: Parameters) -> Parameters:
        """The direction as the virtual step scales it: what the pull is taken along."""
        return {name: direction[name] * self.scale[name] for name in self.scale}


def displaced(parameters: Parameters, slope: Parameters, displacement: Displacement) -> Parameters:
    """The parameters after the virtual step."""
    moved = {}
    for name, p in parameters.items():
        if name in displacement.scale:
            p = p - displacement.scale[name] * slope[name]
            if displacement.offset is not None and name in displacement.offset:
                p = p + displacement.offset[name]
        moved[name] = p
    return moved


def slopes(total: Tensor, parameters: Parameters) -> Parameters:
    """Gradient of a train loss; the graph is kept for the real step."""
    found = torch.autograd.grad(
        total, list(parameters.values()), retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return dict(zip(parameters, map(dense, found), strict=True))


def dense(slope: Tensor) -> Tensor:
    """A gradient as a plain tensor: embeddings may give sparse ones."""
    return slope.to_dense() if slope.is_sparse else slope


@dataclass(frozen=True)
class ExemplarPoint:
    """The objective at chosen parameters."""

    value: Tensor  # []
    losses: Tensor  # [E]
    direction: Parameters  # its gradient, v


def evaluate(objective: Objective, losses: Tensor, exemplar: Batch) -> Tensor:
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


def check_value(value: Tensor) -> None:
    """Refuse an objective that is NaN or infinite (reads the value: a wait on a GPU)."""
    if not bool(torch.isfinite(value)):
        raise LossNotFinite(
            "The objective on the exemplar batch is not finite after the look-ahead; nothing was moved. "
            "Lower the learning rate, or give LookAhead(lr=...) a smaller one."
        )


def exemplar_point(
    done: ForwardPass,
    parameters: Parameters,
    exemplar: Batch,
    objective: Objective,
    *,
    moving: Collection[str] | None = None,
    running_statistics: bool = False,
    check: bool = True,
) -> ExemplarPoint:
    """The objective on the exemplar batch at these parameters, and its gradient by those that move (None: by all)."""
    there = {name: p.detach().requires_grad_(moving is None or name in moving) for name, p in parameters.items()}
    asked = {name: p for name, p in there.items() if p.requires_grad}

    def backward(logits: Tensor) -> ExemplarPoint:
        if check:
            check_labels(logits, exemplar.labels, "exemplar")
        losses = per_sample(done.loss, logits, exemplar.labels)
        value = evaluate(objective, losses, exemplar)
        if check:
            check_value(value)
        if value.requires_grad:
            found = torch.autograd.grad(value, list(asked.values()), allow_unused=True, materialize_grads=True)
        else:  # an objective that is constant here, such as a clipped one
            found = tuple(torch.zeros_like(p) for p in asked.values())
        return ExemplarPoint(value.detach(), losses.detach(), dict(zip(asked, map(dense, found), strict=True)))

    with torch.enable_grad(), norms_frozen(done.model, running_statistics):
        return done.run(there, exemplar, backward)
