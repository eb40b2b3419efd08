"""From an optimizer's settings to the virtual step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.metagradient.displacement import Displacement
from fairweight.metagradient.passes import Parameters


@dataclass(frozen=True)
class LookAhead:
    """The virtual step θ → θ̃.

    lr: its rate; None takes each parameter group's current lr. reverse: go up the train loss instead of down
    (the paper's appendix). direction: "gradient", bare descent; or "optimizer", the step
    that SGD (momentum, Nesterov, decay) or Adam would take; Adam's second moment counts as constant.
    statistics: batch norm on the exemplar pass uses the "batch" or its "running" statistics.
    """

    lr: float | None = None
    reverse: bool = False
    direction: Literal["gradient", "optimizer"] = "gradient"
    statistics: Literal["batch", "running"] = "batch"

    def __post_init__(self) -> None:
        if self.lr is not None and not self.lr > 0:
            raise BadInput(f"LookAhead(lr={self.lr}): give a positive rate, or None for the optimizer's own.")
        if self.direction not in ("gradient", "optimizer"):
            raise BadInput(f"LookAhead(direction={self.direction!r}): choose 'gradient' or 'optimizer'.")
        if self.statistics not in ("batch", "running"):
            raise BadInput(f"LookAhead(statistics={self.statistics!r}): choose 'batch' or 'running'.")

    def displacement(
        self, parameters: Parameters, slope: Parameters | None, optimizer: torch.optim.Optimizer
    ) -> Displacement:
        """The virtual step with this optimizer; slope is needed for the optimizer's own direction alone."""
        group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        sign = -1.0 if self.reverse else 1.0
        scale: dict[str, float | Tensor] = {}
        offset: dict[str, Tensor] = {}
        for name, p in parameters.items():
            group = group_of.get(id(p))
            if group is None:
                continue  # nobody moves it, so neither does the look-ahead
            lr = group["lr"] if self.lr is None else self.lr
            if self.direction == "gradient":
                scale[name] = sign * lr * (-1.0 if group.get("maximize") else 1.0)  # where training goes
            else:
                assert slope is not None
                precondition, push = _own_step(optimizer, group, p, slope[name])
                scale[name] = sign * lr * precondition
                offset[name] = -sign * lr * push
        if not scale:
            raise BadInput(
                "The optimizer holds none of the model's trainable parameters; build it from model.parameters()."
            )
        return Displacement(scale, offset or None)


def _own_step(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], p: Tensor, slope: Tensor
) -> tuple[float | Tensor, Tensor]:
    """The optimizer's step as (factor on the gradient, part owed to memory and decay)."""
    if isinstance(optimizer, torch.optim.SGD):
        return _sgd(optimizer, group, p)
    if isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        return _adam(optimizer, group, p, slope)
    raise BadInput(
        f"LookAhead(direction='optimizer') knows SGD, Adam and AdamW, not {type(optimizer).__name__}; "
        "use direction='gradient'."
    )


def _sgd(optimizer: torch.optim.Optimizer, group: dict[str, Any], p: Tensor) -> tuple[float, Tensor]:
    """SGD's: linear in the gradient, so that nothing is left out."""
    own, momentum = p.detach(), float(group["momentum"])
    kept = optimizer.state.get(p, {}).get("momentum_buffer") if momentum else None
    fresh = 1.0 if kept is None else 1 - float(group["dampening"])  # how far a gradient enters the memory
    factor = 1 + momentum * fresh if group["nesterov"] else fresh if momentum else 1.0
    push = torch.zeros_like(own) if kept is None else (momentum**2 if group["nesterov"] else momentum) * kept
    return factor * (-1.0 if group["maximize"] else 1.0), push + factor * float(group["weight_decay"]) * own


def _adam(optimizer: torch.optim.Optimizer, group: dict[str, Any], p: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Adam's; the second moment counts as constant."""
    beta1, beta2 = (float(b) for b in group["betas"])
    eps = float(group["eps"])
    decay = float(group["weight_decay"])
    decoupled = bool(group.get("decoupled_weight_decay", isinstance(optimizer, torch.optim.AdamW)))
    own, up = p.detach(), -1.0 if group["maximize"] else 1.0
    slope = up * slope.detach() if decoupled else up * slope.detach() + decay * own
    state = optimizer.state.get(p, {})
    time = float(state["step"]) + 1 if state else 1.0
    second = beta2 * state["exp_avg_sq"] + (1 - beta2) * slope.square() if state else (1 - beta2) * slope.square()
    if group.get("amsgrad") and state:
        second = torch.maximum(state["max_exp_avg_sq"], second)
    size = (second / (1 - beta2**time)).sqrt() + eps
    factor = (1 - beta1) / (1 - beta1**time) / size
    first = state["exp_avg"] if state else torch.zeros_like(slope)
    push = beta1 / (1 - beta1**time) * first / size
    return up * factor, push + decay * own * (1.0 if decoupled else factor)
