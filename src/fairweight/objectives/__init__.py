"""What counts on the exemplar batch: f(losses [E], groups [E]) -> scalar.

One file per objective, one public class each. `__call__` sees losses and groups; `on` sees the whole exemplar
batch, for objectives that also look at labels or at natural shares. Groups in the batch count, absent ones do
not, negative ones (not known) are left out, and the value is never NaN. Objectives add and scale:
`MeanLoss() + 0.5 * MaxLossDiscrepancy()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from fairweight.errors import BadInput, MissingGroups, OneGroup
from fairweight.metagradient.passes import extremes
from fairweight.metagradient.solve import evaluate
from fairweight.types import Batch, ObjectiveFunction


class Objective:
    """A function of per-sample losses and groups; subclasses write `__call__`, or `on` where labels count."""

    compares = True  # whether one group alone leaves it without meaning
    within_labels = False  # whether it compares groups within a label, so that groups must be given

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The value on these losses."""  # []
        raise NotImplementedError

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """The value on an exemplar batch."""  # []
        return self(losses, self.compared(exemplar))

    def compared(self, exemplar: Batch) -> Tensor:
        """The group of each exemplar as this objective compares them, -1 where it leaves one out."""  # [E]
        if self.within_labels and exemplar.groups is None:
            raise MissingGroups(f"{type(self).__name__} compares groups within a label; give Batch(groups=...).")
        return exemplar.compared()

    def __add__(self, other: object) -> Objective:
        if not callable(other):
            return NotImplemented
        return _Sum(((1.0, self), (1.0, other)))

    __radd__ = __add__

    def __mul__(self, factor: object) -> Objective:
        if not isinstance(factor, int | float):
            return NotImplemented
        if not math.isfinite(factor):
            raise BadInput(f"An objective cannot be multiplied by {factor}; use a finite number.")
        return _Sum(((float(factor), self),))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({options})"


class _Sum(Objective):
    """Objectives, each times its coefficient."""

    def __init__(self, terms: tuple[tuple[float, ObjectiveFunction], ...]) -> None:
        self.terms: tuple[tuple[float, ObjectiveFunction], ...] = tuple(
            (factor * own, part)
            for factor, term in terms
            for own, part in (term.terms if isinstance(term, _Sum) else ((1.0, term),))
        )

    @property
    def compares(self) -> bool:  # type: ignore[override]
        return any(getattr(term, "compares", False) for _, term in self.terms)

    def compared(self, exemplar: Batch) -> Tensor:
        """The groups of the first term that compares."""  # [E]
        for _, term in self.terms:
            if isinstance(term, Objective) and term.compares:
                return term.compared(exemplar)
        return exemplar.compared()

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        return _total((factor, term(losses, groups)) for factor, term in self.terms)

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        return _total((factor, evaluate(term, losses, exemplar)) for factor, term in self.terms)

    def __repr__(self) -> str:
        return " + ".join(f"{factor:g} * {term!r}" for factor, term in self.terms)


def _total(parts: Iterable[tuple[float, Tensor]]) -> Tensor:
    """Add the parts; none is multiplied by 1, since in a small model each operation counts."""  # []
    values = [value if factor == 1.0 else factor * value for factor, value in parts]
    return reduce(torch.add, values)


def check_comparable(objective: ObjectiveFunction, exemplar: Batch) -> None:
    """Refuse an exemplar batch that leaves nothing to compare."""
    if len(exemplar) == 0:
        raise BadInput("The exemplar batch is empty; give at least one sample of each group.")
    if not getattr(objective, "compares", False):
        return
    groups = objective.compared(exemplar) if isinstance(objective, Objective) else exemplar.compared()
    low, high = extremes(groups)
    if 0 <= low < high:  # all known, and of two groups at least
        return
    present = torch.unique(groups[groups >= 0]).tolist()
    if len(present) < 2:
        what = "label" if exemplar.groups is None else "group"
        raise OneGroup(
            f"The exemplar batch holds {len(present)} {what} ({', '.join(map(str, present)) or 'none known'}) and the "
            f"objective compares {what}s; draw it with samples of at least two, or use MeanLoss()."
        )


# Up to this many exemplars every pair is compared, which needs no wait on a GPU; beyond it groups are counted.
PAIRWISE = 1024


class GroupLosses(NamedTuple):
    """Group losses, repeated or not: entry k stands for share[k] of one group."""

    loss: Tensor  # [M]
    share: Tensor  # [M] sums to the number of groups; 0 where the entry does not count

    @property
    def number(self) -> Tensor:
        """How many groups there are."""  # []
        return self.share.sum()

    def mean(self) -> Tensor:
        """Plain mean over groups; 0 where there are none."""  # []
        return (self.share * self.loss).sum() / self.number.clamp_min(1.0)

    def variance(self) -> Tensor:
        """The variance of the losses over groups; 0 where there are none."""  # []
        even = self.share / self.number.clamp_min(1.0)
        return (even * (self.loss - (even * self.loss).sum()).square()).sum()

    def largest(self) -> Tensor:
        """The worst group's loss."""  # []
        return _or_zero(self.loss.masked_fill(self.share == 0, -torch.inf).amax(), self.number)

    def soft_largest(self, softness: float) -> Tensor:
        """t log mean exp(L / t), which is L where all groups are equal; the largest at softness 0."""  # []
        if softness <= 0:
            return self.largest()
        # share inside the logarithm: each group counts once however often it is repeated
        log_share = torch.where(self.share > 0, self.share, torch.ones_like(self.share)).log()
        log_share = log_share.masked_fill(self.share == 0, -torch.inf)
        top = torch.logsumexp(self.loss / softness + log_share, dim=0) - self.number.clamp_min(1.0).log()
        return _or_zero(softness * top, self.number)

    def smallest(self) -> Tensor:
        """The best group's loss."""  # []
        return _or_zero(self.loss.masked_fill(self.share == 0, torch.inf).amin(), self.number)


def _or_zero(value: Tensor, number: Tensor) -> Tensor:
    return torch.where(number > 0, value, torch.zeros_like(value))


def group_losses(losses: Tensor, groups: Tensor) -> GroupLosses:
    """Mean loss of each group in the batch; samples with a negative group are left out."""
    known = groups >= 0
    if 0 < len(losses) <= PAIRWISE:
        same = (groups[:, None] == groups) & known  # [E, E]
        number = same.sum(dim=1).clamp_min(1).to(losses.dtype)  # [E]
        return GroupLosses(torch.where(same, losses, 0.0).sum(dim=1) / number, known / number)
    unique, index = torch.unique(groups[known], return_inverse=True)
    if len(unique) == 0:
        return GroupLosses(losses.new_zeros(1), losses.new_zeros(1))
    total = losses.new_zeros(len(unique)).index_add(0, index, losses[known])
    number = torch.bincount(index, minlength=len(unique)).to(losses.dtype)
    return GroupLosses(total / number, torch.ones_like(total))
