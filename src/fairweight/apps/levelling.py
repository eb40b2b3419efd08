"""How a gap became smaller: because somebody gained, by levelling down, or as a moved threshold would do it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fairweight.metrics import GroupTable
from fairweight.metrics.criterion import Criterion, Rate
from fairweight.metrics.levelling import LOW_IS_GOOD, Loss, nobody_gains
from fairweight.runs.run import by_class

Kind = Literal["levels-down", "as-a-threshold"]
SAID = {"levels-down": "Levels down", "as-a-threshold": "Helps, as a moved threshold would"}
RATES: dict[Rate, str] = {
    "tpr": "true positive rate",
    "fpr": LOW_IS_GOOD,
    "selection_rate": "share predicted positive",
    "precision": "precision",
    "accuracy": "accuracy",
}
MOVED = 0.01  # of the rows: a share of positives that moved less is no other threshold
ENOUGH = 0.5  # of the gap's decrease that a moved threshold brings
DEARER = 0.005  # of accuracy, by which a moved threshold may be worse


@dataclass(frozen=True)
class Levelling:
    """Two tables of the same rows; moved: plain training that predicts as many positives as what was handed over."""

    criterion: Criterion
    before: GroupTable
    after: GroupTable
    moved: GroupTable | None = None

    @property
    def kind(self) -> Kind | None:
        """How the gap fell, where that was no gain of its own."""
        if self.loss is not None:
            return "levels-down"
        return "as-a-threshold" if self._as_a_threshold else None

    @cached_property
    def loss(self) -> Loss | None:
        """What the group that lost most lost, where nobody gained by the criterion's rates."""
        what = "label" if self.before.by_label else "group"
        return nobody_gains(self._rates(self.before), self._rates(self.after), what)

    def _rates(self, table: GroupTable) -> dict[tuple[str, str], float]:
        names, found = [_name(group) for group in table.groups], {}
        counts = self.criterion.counts_of(table)
        for rate in self.criterion.rates:
            values = self.criterion.by_group(counts, rate, by_label=table.by_label, behind=counts)  # [R, T]
            for row, each in enumerate(values):
                for target, value in enumerate(each):
                    of = f"label {table.labels[target]} in {names[row]}" if len(each) > 1 else names[row]
                    found[RATES[rate], of] = float(value)
        return found

    @property
    def _as_a_threshold(self) -> bool:
        if self.moved is None:
            return False
        gaps = [self.criterion.gap(table) for table in (self.before, self.after, self.moved)]
        shares = [_share(table) for table in (self.before, self.after)]
        return (
            abs(shares[1] - shares[0]) >= MOVED
            and gaps[0] - gaps[2] >= ENOUGH * (gaps[0] - gaps[1])
            and self.moved.accuracy >= self.after.accuracy - DEARER
        )

    def sentence(self) -> str:
        """What was lost, or what a moved threshold does, for people."""
        if self.loss is not None:
            return f"Nobody gains: {self.loss}."
        if self.kind is None or self.moved is None:
            return ""
        return (
            "Plain training with one threshold for everybody, moved so that it predicts as many positives "
            f"({100 * _share(self.moved):.1f} %), has a {self.criterion.noun} of "
            f"{100 * self.criterion.gap(self.moved):.2f} points at an accuracy of {100 * self.moved.accuracy:.2f} %."
        )

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "sentence": self.sentence()}
        if self.loss is not None:
            return found | {"because": str(self.loss)}
        assert self.moved is not None
        return found | {"gap": self.criterion.gap(self.moved), "accuracy": self.moved.accuracy}

    def partly(self) -> str:
        """Say that half or more of a smaller gap in true positive rates is the best group's loss, or nothing."""
        if not self._one_rate:
            return ""
        rates = [[100 * rate for rate in table.by_group("tpr").values()] for table in (self.before, self.after)]
        (worst, best), (worst_now, best_now) = ((min(each), max(each)) for each in rates)
        fell, lost = (best - worst) - (best_now - worst_now), best - best_now
        if not (fell >= 1 and lost >= max(0.5, 0.5 * fell)):  # as on the audit page
            return ""
        return (
            f"Levelling down: of the {fell:.1f} points that the gap in true positive rates is smaller, {lost:.1f} come "
            f"from the best group, which fell from {best:.1f} to {best_now:.1f} %; the worst went from {worst:.1f} to "
            f"{worst_now:.1f} %."
        )

    def together(self) -> str:
        """Say that all groups' rates moved the same way, or nothing."""
        if not self._one_rate:
            return ""
        before, after = self.before.by_group("tpr"), self.after.by_group("tpr")
        moves = [100 * (after[g] - before[g]) for g in before if not math.isnan(after[g] - before[g])]
        if len(moves) < 2 or not (min(moves) > 0 or max(moves) < 0):
            return ""
        least, most = sorted(map(abs, (min(moves), max(moves))))
        shares = [100 * _share(table) for table in (self.before, self.after)]
        return (
            f"The true positive rates of all groups went {'up' if moves[0] > 0 else 'down'}, by {least:.1f} to "
            f"{most:.1f} points, and the share predicted positive from {shares[0]:.1f} to {shares[1]:.1f} %: part of "
            "the change is the same for everybody."
        )

    @property
    def _one_rate(self) -> bool:
        return not (self.before.by_label or self.before.has_cells) and "tpr" in self.criterion.rates


def predictions_at_share_of(logits: Tensor, predictions: Tensor, positive: int) -> Tensor:
    """Predictions by these logits at the threshold that gives as many positives as the other predictions have."""
    logits = by_class(logits)
    margin = (logits[:, positive] - logits[:, 1 - positive]).double()  # [N]
    wanted = int((predictions == positive).sum())
    least = margin.sort(descending=True).values[wanted - 1] if wanted else torch.inf
    return torch.where(margin >= least, positive, 1 - positive)


def _share(table: GroupTable) -> float:
    return float(np.mean(table.samples.predictions == table.samples.positive))


def _name(group: object) -> str:
    return " · ".join(map(str, group)) if isinstance(group, tuple) else str(group)
