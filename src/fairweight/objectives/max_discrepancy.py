"""The paper's MaxLossD."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fairweight.errors import BadInput, UnknownName
from fairweight.objectives import Objective
from fairweight.objectives._groups import GroupLosses, group_losses


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
            return self._largest(away)
        if self.softness <= 0:
            return by_group.largest() - by_group.smallest()
        return self._largest(by_group) + self._largest(by_group._replace(loss=-by_group.loss))

    def _largest(self, by_group: GroupLosses) -> Tensor:
        """The largest entry; with softness t log mean exp(L / t), which is L where all groups are equal."""  # []
        if self.softness <= 0:
            return by_group.largest()
        t = self.softness
        # share inside the logarithm: each group counts once however often it is repeated
        log_share = torch.where(by_group.share > 0, by_group.share, torch.ones_like(by_group.share)).log()
        log_share = log_share.masked_fill(by_group.share == 0, -torch.inf)
        top = t * (torch.logsumexp(by_group.loss / t + log_share, dim=0) - by_group.number.clamp_min(1.0).log())
        return torch.where(by_group.number > 0, top, torch.zeros_like(top))
