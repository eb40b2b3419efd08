"""The paper's MeanLossD."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fairweight.constraints import constrained, one_of
from fairweight.objectives import Objective, group_losses


@constrained(of=one_of("mean", "pairs", "best"))
class MeanLossDiscrepancy(Objective):
    """Mean difference of group losses: from the "mean", over "pairs", or of the mean from the "best" group."""

    def __init__(self, of: Literal["mean", "pairs", "best"] = "mean") -> None:
        self.of = of

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The discrepancy; 0 where one group is present."""  # []
        by_group = group_losses(losses, groups)
        if self.of == "best":
            return by_group.mean() - by_group.smallest()
        if self.of == "mean":
            return by_group._replace(loss=(by_group.loss - by_group.mean()).abs()).mean()
        apart = (by_group.loss[:, None] - by_group.loss[None, :]).abs()  # [M, M]
        both = by_group.share[:, None] * by_group.share[None, :]
        pairs = by_group.number * (by_group.number - 1)
        return (both * apart).sum() / pairs.clamp_min(1.0)
