"""An objective over other groups than the batch's own: those of positives, or the cells."""

from __future__ import annotations

from torch import Tensor

from fairweight.errors import UnknownName
from fairweight.objectives import Objective
from fairweight.types import Batch

GROUPS = 2**31  # groups that a cell's number tells apart within a label: more than there are


class Among(Objective):
    """The objective on the groups of "positives" (label 1) alone, or with every "cells" (label and group) a group."""

    within_labels = True

    def __init__(self, objective: Objective, among: str, positive: int = 1) -> None:
        if among not in ("positives", "cells"):
            raise UnknownName(f"among={among!r}: choose 'all', 'positives' or 'cells'.")
        self.objective, self.among, self.positive = objective, among, positive
        self.compares = objective.compares

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The objective on the groups given."""  # []
        return self.objective(losses, groups)

    def compared(self, exemplar: Batch) -> Tensor:
        """The groups of positives, -1 elsewhere; or one number per cell."""  # [E]
        groups = super().compared(exemplar)
        if self.among == "positives":
            return groups.masked_fill(exemplar.labels != self.positive, -1)
        return (exemplar.labels * GROUPS + groups).masked_fill(groups < 0, -1)
