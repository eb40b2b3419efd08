"""The paper's MaxLossD."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fairweight.errors import BadInput, UnknownName
from fairweight.objectives import Objective, group_losses


class MaxLossDiscrepancy(Objective):
    """Largest difference between group losses: "range" max − min, "mean" max |L_g − mean|; smooth with softness > 0."""

    def __init__(self, of: Literal["range", "mean"] = "range", softness: float = 0.0) -> None:
        if of not in ("range", "mean"):
            raise UnknownName(
                f"MaxLossDiscrepancy(of={of!r}): choose 'range' (max - min) or 'mean' (max |L_g - mean|)."
            )
        if not softness >= 0:
            raise BadInput(f"MaxLossDiscrepancy(softness={softness}): give 0 for the plain maximum, or more.")
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
