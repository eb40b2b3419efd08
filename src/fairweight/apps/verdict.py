"""What a training changed, beside plain training, on test rows: helps, no effect, or worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fairweight.apps.judge import BUDGET, Rows, Wish, gap_change
from fairweight.data import Dataset
from fairweight.data.meaning import Meaning
from fairweight.metagradient.passes import predicted
from fairweight.metrics import Difference, Estimate, GroupTable, compare, group_table
from fairweight.metrics.calibration import calibration_by_group
from fairweight.metrics.criterion import Criterion
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import Result, probabilities

Word = Literal["helps", "no-effect", "worse"]
PLAIN = "plain training"
NUMBERS = {"tprd": "TPRD", "max_fnr": "maxFNR", "accuracy": "accuracy"}
Calibration = Mapping[str, Mapping[str, Mapping[str, float]]]  # before and after, by group


def table_of(folder: RunFolder, dataset: Dataset, part: str = "test") -> GroupTable:
    """Table by group of a finished run on a part."""
    found, labels, groups = folder.read_logits(part)
    return by_group(dataset.preprocessing.meaning, labels, predicted(found), groups)


def by_group(meaning: Meaning, labels: Tensor, predictions: Tensor, groups: Tensor | None) -> GroupTable:
    """Table by group, with the names that the data gives to labels and groups."""
    title = ", ".join(meaning.group)
    return group_table(
        labels,
        predictions,
        None if groups is None else {title: groups},
        label_names=meaning.label_names,
        group_names=None if groups is None else {title: meaning.group_names},
        missing="ignore",
    )


def calibration_of(meaning: Meaning, logits: Tensor, labels: Tensor, groups: Tensor | None) -> dict[str, Any]:
    """Calibration by group of a model on these samples."""
    codes = None if groups is None or not meaning.group_names else groups.cpu().numpy()
    chances = probabilities(logits.double().cpu()).numpy()
    return calibration_by_group(chances, labels.cpu().numpy(), codes, meaning.group_names)


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
    calibration: Calibration = field(default_factory=dict)

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
    def numbers(self) -> dict[str, Difference]:
        """Paired differences: the number of what was handed over minus that of plain training."""
        return {name: compare(self.before, self.after, name) for name in NUMBERS}

    @property
    def accuracy(self) -> Difference:
        """Accuracy before and after, with the interval of the difference."""
        return self.numbers["accuracy"]

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
        one_rate = not (self.before.by_label or self.before.has_cells) and "tpr" in self.criterion.rates
        if not one_rate or self.kept_plain or not self.change[0] < 0:
            return ""
        before, after = self.before.by_group("tpr"), self.after.by_group("tpr")
        moves = [after[g] - before[g] for g in before if not math.isnan(after[g] - before[g])]
        if len(moves) < 2 or not (all(m > 0 for m in moves) or all(m < 0 for m in moves)):
            return ""
        way = "up" if moves[0] > 0 else "down"
        least, most = min(map(abs, moves)), max(map(abs, moves))
        shares = [float((t.samples.predictions == t.samples.positive).mean()) for t in (self.before, self.after)]
        return (
            f"The true positive rates of all groups went {way}, by {100 * least:.1f} to {100 * most:.1f} points, and "
            f"the share predicted positive from {100 * shares[0]:.1f} to {100 * shares[1]:.1f} %: part of the change "
            "is the same for everybody."
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields of metrics.json."""
        before, after = self.gap
        moved = self.together()
        columns = [self.criterion.by_column(table) for table in (self.before, self.after)]
        by_column = {name: {"gap_before": _plain(columns[0][name]), "gap_after": _plain(columns[1][name])}
                     for name in columns[0]}  # fmt: skip
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
            **({"columns": by_column} if by_column else {}),
            **({"calibration": self.calibration} if self.calibration else {}),
            **({"all_rates_move_together": moved} if moved else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def differences(self) -> dict[str, Any]:
        """TPRD, maxFNR and accuracy before and after, with paired intervals, as plain values."""
        found = {
            name: {
                "before": _plain(d.a),
                "after": _plain(d.b),
                "difference": _plain(d.value),
                "interval": [_plain(d.low), _plain(d.high)],
                "larger_than_interval": d.beyond_interval,
                "n": d.n,
            }
            for name, d in self.numbers.items()
        }
        return {"numbers": found, "sentence": self.sentence()}

    def rows(self) -> list[tuple[str, str, str, str]]:
        """For a table in points: name, plain training, what was handed over, the difference with its interval."""
        found = []
        for name, title in NUMBERS.items():
            d = self.numbers[name]
            before, after = (in_points(table, name) for table in (self.before, self.after))
            apart = "–" if math.isnan(d.value) else f"{100 * d.value:+.2f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
            found.append((title, before, after, apart))
        return found

    def sentence(self) -> str:
        """The first line."""
        what = f"{self.criterion.title} gap"
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


def verdict_between(
    done: Result, beside: Result, dataset: Dataset, criterion: Criterion, wish: Wish | None = None, **said: Any
) -> Verdict:
    """The verdict on a run beside plain training's; said: fields that are not those of a method's run."""
    run = done.metrics.get("run", {})
    found: dict[str, Any] = {
        "criterion": criterion,
        "before": table_of(beside.folder, dataset),
        "after": table_of(done.folder, dataset),
        "chosen": done.spec.title,
        "plain": PLAIN,
        "kept_epoch": run.get("best_epoch") or run.get("epochs"),
        "budget": wish.budget if wish is not None and wish.budget is not None else BUDGET,
    }
    if "calibration" not in said:
        runs, meaning = {"before": beside, "after": done}, dataset.preprocessing.meaning
        found["calibration"] = {k: calibration_of(meaning, *one.folder.read_logits("test")) for k, one in runs.items()}
    return Verdict(**{**found, **said})


def in_points(table: GroupTable, name: str) -> str:
    """Number of the table with its interval, in points."""
    estimate = table.estimate(name)
    if math.isnan(estimate.value):
        return "–"
    return f"{100 * estimate.value:.2f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _estimate(found: Estimate) -> dict[str, float | int | None]:
    return {"value": _plain(found.value), "low": _plain(found.low), "high": _plain(found.high), "n": found.n}


def _points(found: Estimate) -> str:
    return f"{100 * found.value:.2f} points [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
