"""What a training changed, beside plain training, on test rows: helps, no effect, or worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fairweight.apps.judge import Rows, gap_change
from fairweight.metrics import Estimate, GroupTable, compare
from fairweight.metrics.compare import Difference
from fairweight.metrics.criterion import Criterion

Word = Literal["helps", "no-effect", "worse"]


@dataclass(frozen=True)
class Verdict:
    """Two tables of the same test rows, and what may be said of them.

    chosen: what was handed over. kept_plain: nothing beat plain training, and that is what was handed over.
    budget: points of accuracy that might be given up.
    """

    criterion: Criterion
    before: GroupTable
    after: GroupTable
    chosen: str
    plain: str
    kept_epoch: int | None = None
    kept_plain: bool = False
    budget: float = 0.3
    notes: tuple[str, ...] = ()

    @cached_property
    def gap(self) -> tuple[Estimate, Estimate]:
        """The gap before and after, with intervals."""
        return self.criterion.estimate(self.before), self.criterion.estimate(self.after)

    @cached_property
    def change(self) -> tuple[float, float, float]:
        """Change of the gap with its paired interval."""
        samples = self.before.samples
        groups = None if samples.groups is None else np.asarray(samples.groups)
        flip = samples.positive is not None and len(samples.label_axis) == 2 and samples.positive == 0
        labels, first, last = samples.labels, samples.predictions, self.after.samples.predictions
        if flip:
            labels, first, last = 1 - labels, 1 - first, 1 - last
        return gap_change(Rows(labels, groups, len(samples.label_axis)), first, last, self.criterion)

    @cached_property
    def accuracy(self) -> Difference:
        """Accuracy before and after, with the interval of the difference."""
        return compare(self.before, self.after, "accuracy")

    @property
    def word(self) -> Word:
        """The gap falls (or rises) by more than resampling explains, or accuracy falls clearly beyond the budget."""
        _, low, high = self.change
        if self.kept_plain or math.isnan(low):
            return "no-effect"
        too_dear = 100 * self.accuracy.high < -self.budget
        if low > 0 or (too_dear and high >= 0):
            return "worse"
        return "helps" if high < 0 else "no-effect"

    def together(self) -> str:
        """Say that the gap fell because all groups' rates moved the same way, or nothing."""
        if self.before.by_label or self.kept_plain or not self.change[0] < 0 or "tpr" not in self.criterion.rates:
            return ""
        before, after = self.before.by_group("tpr"), self.after.by_group("tpr")
        moves = [after[g] - before[g] for g in before if not math.isnan(after[g] - before[g])]
        if len(moves) < 2 or not (all(m > 0 for m in moves) or all(m < 0 for m in moves)):
            return ""
        way = "up" if moves[0] > 0 else "down"
        least, most = min(map(abs, moves)), max(map(abs, moves))
        return (
            f"The true positive rates of all groups went {way}, by {100 * least:.1f} to {100 * most:.1f} points: part "
            "of the change is the same for everybody."
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields of metrics.json."""
        before, after = self.gap
        moved = self.together()
        return {
            "verdict": self.word,
            "chosen": self.chosen,
            "kept_epoch": self.kept_epoch,
            "criterion": self.criterion.name,
            "gap_before": _estimate(before),
            "gap_after": _estimate(after),
            "gap_change": dict(zip(("value", "low", "high"), map(_plain, self.change), strict=True)),
            "accuracy_before": _plain(self.accuracy.a),
            "accuracy_after": _plain(self.accuracy.b),
            "accuracy_change": {
                "value": _plain(self.accuracy.value),
                "low": _plain(self.accuracy.low),
                "high": _plain(self.accuracy.high),
            },
            "sentence": self.sentence(),
            **({"all_rates_move_together": moved} if moved else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def sentence(self) -> str:
        """The first line."""
        what = f"{self.criterion.name} gap"
        if self.kept_plain:
            before = self.gap[0]
            found = "cannot be estimated" if math.isnan(before.value) else _points(before)
            return (
                f"Nothing beat plain training on the rows that models were judged on, so {self.plain} is what you get: "
                f"{what} {found}, accuracy {100 * self.accuracy.a:.2f}."
            )
        change, low, high = self.change
        cost = f"accuracy {100 * self.accuracy.a:.2f} → {100 * self.accuracy.b:.2f}"
        if math.isnan(change):
            return f"No verdict: the {what} cannot be estimated on {self.before.n:,} test rows; {cost}."
        said = {"helps": "Helps", "no-effect": "No clear effect", "worse": "Worse"}[self.word]
        return (
            f"{said}: {what} {100 * self.gap[0].value:.2f} → {100 * self.gap[1].value:.2f} points "
            f"({100 * change:+.2f}, 95 % interval {100 * low:+.1f} to {100 * high:+.1f}), {cost} "
            f"({100 * self.accuracy.value:+.2f}), by {self.chosen} beside {self.plain}, on {self.before.n:,} test rows."
        )


def fields_of(verdict: Verdict | None) -> Mapping[str, Any]:
    """The verdict's fields, none where there is nothing to compare with."""
    return {} if verdict is None else verdict.to_dict()


def _estimate(found: Estimate) -> dict[str, float | int | None]:
    return {"value": _plain(found.value), "low": _plain(found.low), "high": _plain(found.high), "n": found.n}


def _points(found: Estimate) -> str:
    return f"{100 * found.value:.2f} points [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
