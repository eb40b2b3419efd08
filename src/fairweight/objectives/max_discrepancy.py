"""The paper's MaxLossD."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fairweight.constraints import between, constrained, one_of
from fairweight.objectives import Objective, group_losses


@constrained(of=one_of("range", "mean"), softness=between(0))
class MaxLossDiscrepancy(Objective):
    """Largest difference between group losses: "range" max − min, "mean" max |L_g − mean|; smooth with softness > 0."""

    def __init__(self, of: Literal["range", "mean"] = "range", softness: float = 0.0) -> None:
        self.of = of
        self.softness = softness

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The discrepancy; 0 where one group is present."""  # []
        by_group = group_losses(losses, groups)
        if self.of == "mean":
            away = by_group._replace(loss=(by_group.loss - by_group.mean()).abs())
            return away.soft_largest(self.softness)
        if self.softness <= 0:
            return by_group.largest() - by_group.smallest()
        return by_group.soft_largest(self.softness) + by_group._replace(loss=-by_group.loss).soft_largest(self.softness)
