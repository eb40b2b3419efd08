"""The loss of whoever is served worst."""

from __future__ import annotations

from torch import Tensor

from fairweight.constraints import between, constrained
from fairweight.objectives import Objective, group_losses


@constrained(softness=between(0))
class WorstGroupLoss(Objective):
    """Largest group loss (Meta-gDRO); with softness > 0 a smooth maximum, which no group's loss lowers by rising."""

    compares = False  # one group's loss is still worth lowering

    def __init__(self, softness: float = 0.0) -> None:
        self.softness = softness

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The worst group's mean loss."""  # []
        return group_losses(losses, groups).soft_largest(self.softness)
