"""The virtual step's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from fairweight.constraints import FLAG, above, constrained, either, one_of
from fairweight.errors import BadInput
from fairweight.metagradient.model import Parameters
from fairweight.metagradient.solve import Rates


@constrained(lr=either(above(0)), reverse=FLAG, statistics=one_of("batch", "running"))
@dataclass(frozen=True)
class LookAhead:
    """The virtual step θ → θ̃: bare gradient descent.

    lr: its rate; None takes each parameter group's current lr. reverse: go up the train loss instead of down
    (the paper's appendix). statistics: batch norm on the exemplar pass uses the "batch" or its "running" statistics.
    """

    lr: float | None = None
    reverse: bool = False
    statistics: Literal["batch", "running"] = "batch"

    def rates(self, parameters: Parameters, optimizer: torch.optim.Optimizer) -> Rates:
        """The virtual step's rate of every parameter that the optimizer moves."""
        group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        groups = {name: group_of[id(p)] for name, p in parameters.items() if id(p) in group_of}
        if not groups:
            raise BadInput(
                "The optimizer holds none of the model's trainable parameters that the virtual step may move; build it "
                "from model.parameters(), or choose another scope."
            )
        sign = -1.0 if self.reverse else 1.0
        return {
            name: sign * (group["lr"] if self.lr is None else self.lr) * (-1.0 if group.get("maximize") else 1.0)
            for name, group in groups.items()
        }
