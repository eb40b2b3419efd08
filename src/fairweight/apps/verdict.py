"""What a training changed, beside plain training, on test rows: helps, no effect, or worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fairweight.apps.judge import BUDGET, NOTHING, Goal, Rows, gap_change, known_values
from fairweight.apps.levelling import SAID, Kind, Levelling, predictions_at_share_of
from fairweight.data import Dataset
from fairweight.data.meaning import Meaning
from fairweight.metagradient.passes import predicted
from fairweight.metrics import Difference, Estimate, GroupTable, compare
from fairweight.metrics.calibration import calibration_by_group
from fairweight.metrics.criterion import FEWEST, Criterion
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import Result, by_group, probabilities

Word = Literal["helps", "no-effect", "worse"]
PLAIN = "plain training"
NUMBERS = {"tprd": "TPRD", "max_fnr": "maxFNR", "accuracy": "accuracy"}
Calibration = Mapping[str, Mapping[str, Mapping[str, float]]]  # before and after, by group


def table_of(folder: RunFolder, part: slice = slice(None)) -> GroupTable:
    """Table by group of a finished run on its test rows, or on part of them."""
    found, labels, groups = folder.read_logits("test")
    groups = None if groups is None else groups[part]
    return by_group(folder.read_preprocessing().meaning, labels[part], predicted(found[part]), groups)


def word_for(smaller: bool, larger: bool, too_costly: bool, above: bool) -> Word:
    """The verdict on what is clear, which chance does not explain; nothing else counts, for or against.

    smaller, larger: the gap beside plain training's. too_costly: accuracy falls by more than the budget. above: the
    gap is above the bound. One rule for a training on its test rows and for a method over seeds, in docs/start.md.
    """
    if larger or (too_costly and not smaller):
        return "worse"
    return "helps" if smaller and not (too_costly or above) else "no-effect"


@dataclass(frozen=True)
class Verdict:
    """Two tables of the same test rows, and what may be said of them.

    chosen: what was handed over. kept_plain: nothing beat plain training, and that is what was handed over.
    budget: points of accuracy that might be given up. bound: points that the gap might have.
    """

    criterion: Criterion
    before: GroupTable
    after: GroupTable
    chosen: str
    plain: str
    kept_epoch: int | None = None
    kept_plain: bool = False
    budget: float = BUDGET
    bound: float | None = None
    notes: tuple[str, ...] = ()
    why: str = NOTHING  # plain training was kept: the beginning of the first line
    calibration: Calibration = field(default_factory=dict)
    moved: GroupTable | None = None  # plain training that predicts as many positives as what was handed over

    @cached_property
    def gap(self) -> tuple[Estimate, Estimate]:
        """The gap before and after, with intervals."""
        return self.criterion.estimate(self.before), self.criterion.estimate(self.after)

    @cached_property
    def change(self) -> tuple[float, float, float]:
        """Change of the gap with its paired interval."""
        samples = self.before.samples
        groups, classes = None if samples.groups is None else np.asarray(samples.groups), len(samples.label_axis)
        every = samples.labels, samples.predictions, self.after.samples.predictions
        if samples.positive == 0 and classes == 2:
            every = 1 - every[0], 1 - every[1], 1 - every[2]
        return gap_change(Rows(every[0], groups, classes), every[1], every[2], self.criterion)

    @cached_property
    def numbers(self) -> dict[str, Difference]:
        """Paired differences: the number of what was handed over minus that of plain training."""
        differences = {name: compare(self.before, self.after, name) for name in NUMBERS}
        if self.kept_plain:  # the same model twice
            return {name: d._replace(low=d.value, high=d.value) for name, d in differences.items()}
        if self.of_tprd:  # one number has one interval
            differences["tprd"] = differences["tprd"]._replace(low=self.change[1], high=self.change[2])
        return differences

    @property
    def of_tprd(self) -> bool:
        """Whether the criterion's gap is the TPRD."""
        gaps, tprds = [gap.value for gap in self.gap], [self.before.tprd, self.after.tprd]
        return np.allclose(gaps, tprds, equal_nan=True)

    @property
    def accuracy(self) -> Difference:
        """Accuracy before and after, with the interval of the difference."""
        return self.numbers["accuracy"]

    @property
    def word(self) -> Word:
        """Helps, no effect or worse, by what resampling the test rows does not explain."""
        _, low, high = self.change
        if self.kept_plain or math.isnan(low):
            return "no-effect"
        return word_for(high < 0 and not self._few, low > 0 and not self._few, self._too_costly, self._above)

    @property
    def outside_limits(self) -> bool:
        """True if the gap is clearly smaller, and the budget or the bound is clearly not kept."""
        return self.word == "no-effect" and self.change[2] < 0 and not self._few and not self.kept_plain

    @cached_property
    def _few(self) -> int:
        """The fewest test rows that a group's rate is measured on, where those are too few to tell a change; else 0."""
        return found if (found := self.criterion.fewest(self.before)) < FEWEST else 0

    @property
    def _too_costly(self) -> bool:
        """True if accuracy falls clearly beyond the budget."""
        return 100 * self.accuracy.high < -self.budget

    @property
    def _above(self) -> bool:
        """True if the gap is clearly above the bound."""
        return self.bound is not None and 100 * self.gap[1].low > self.bound

    def caveats(self) -> str:
        """Say what chance may explain although it looks clear: a change by few rows, or a limit that is not kept."""
        if self.kept_plain and self._few:
            return f"A group's rate is measured on {self._few} of the test rows: its gap says little."
        if self.kept_plain or math.isnan(self.change[0]):
            return ""
        cost, gap, text = self.accuracy, self.gap[1], []
        low, high = 100 * cost.low, 100 * cost.high
        if self._few and not self.change[1] <= 0 <= self.change[2]:
            text.append(f"A group's rate is measured on {self._few} of the test rows: chance may explain the change.")
        if -100 * cost.value > self.budget and not self._too_costly:
            more = f"more than the budget of {self.budget:g} points"
            text.append(f"Accuracy fell by {more}; chance may explain that (95 % interval {low:+.1f} to {high:+.1f}).")
        if self.bound is not None and 100 * gap.value > self.bound and not self._above:
            more = f"above the bound of {self.bound:g} points"
            text.append(f"The {self.criterion.noun} is {more}; chance may explain that.")
        return " ".join(text)

    @cached_property
    def levelling(self) -> Levelling | None:
        """How the gap fell, if it did."""
        smaller = not self.kept_plain and self.change[0] < 0
        return Levelling(self.criterion, self.before, self.after, self.moved) if smaller else None

    @property
    def levelled(self) -> Kind | None:
        """How the gap fell where the verdict is that it helps, and that was no gain of its own."""
        return self.levelling.kind if self.levelling is not None and self.word == "helps" else None

    def how(self) -> str:
        """Say how the gap fell, where it was not by the gain of those who were worse off alone."""
        levelling = self.levelling
        if levelling is None:
            return ""
        sentences = (levelling.sentence(),) if self.levelled else (levelling.partly(), levelling.together())
        return " ".join(filter(None, sentences))

    def by_column(self) -> str:
        """Say the gap of each column that is judged by itself, or nothing."""
        tables = (self.before,) if self.kept_plain else (self.before, self.after)
        gaps = [self.criterion.by_column(table) for table in tables]
        each = (f"{name} {' → '.join(f'{100 * gap[name]:.2f}' for gap in gaps)}" for name in gaps[0])
        return f"By column: {', '.join(each)} points." if gaps[0] else ""

    def one_label(self) -> str:
        """Say that one label is predicted for every test row, or nothing."""
        samples = self.after.samples
        if len(labels_predicted := set(samples.predictions.tolist())) != 1:
            return ""
        name = self.after.labels[labels_predicted.pop()]
        return f"{self.chosen} predicts {name!r} for each of the {self.after.n:,} test rows: its gap says nothing."

    def to_dict(self) -> dict[str, Any]:
        """Fields of metrics.json."""
        before, after = self.gap
        columns = [self.criterion.by_column(table) for table in (self.before, self.after)]
        more = {
            "columns": {name: known_values({"gap_before": columns[0][name], "gap_after": columns[1][name]})
                        for name in columns[0]},
            "outside_limits": self.outside_limits,
            "calibration": self.calibration,
            "all_rates_move_together": "" if self.levelling is None else self.levelling.together(),
            "levelling": self.levelling.to_dict() if self.levelling is not None and self.levelled else {},
            "notes": [*self.notes, *filter(None, (self.caveats(), self.one_label()))],
        }  # fmt: skip
        return {
            "verdict": self.word,
            "chosen": self.chosen,
            "kept_epoch": self.kept_epoch,
            "criterion": self.criterion.name,
            "gap_before": limits_of(before) | {"n": before.n},
            "gap_after": limits_of(after) | {"n": after.n},
            "gap_change": known_values(dict(zip(("value", "low", "high"), self.change, strict=True))),
            **known_values({"accuracy_before": self.accuracy.a, "accuracy_after": self.accuracy.b}),
            "accuracy_change": limits_of(self.accuracy),
            "sentence": self.sentence(),
            **{key: value for key, value in more.items() if value},
        }

    def differences(self) -> dict[str, Any]:
        """TPRD, maxFNR and accuracy before and after, with paired intervals, as plain values."""
        differences = {
            name: {
                **known_values({"before": d.a, "after": d.b, "difference": d.value}),
                "interval": [*known_values({"low": d.low, "high": d.high}).values()],
                "larger_than_interval": d.beyond_interval,
                "n": d.n,
            }
            for name, d in self.numbers.items()
        }
        return {"numbers": differences, "sentence": self.sentence()}

    def rows(self) -> list[tuple[str, ...]]:
        """For a table in points: name, plain training, what was handed over, the difference with its interval."""
        rows: list[tuple[str, ...]] = []
        if not self.of_tprd:
            rows.append(("gap", *map(in_points, self.gap), _apart(*self.change)))
        for name, title in NUMBERS.items():
            d, both = self.numbers[name], [in_points(table.estimate(name)) for table in (self.before, self.after)]
            rows.append((title, *both, _apart(d.value, d.low, d.high)))
        return rows

    def sentence(self) -> str:
        """The first line."""
        what = self.criterion.measure
        if self.kept_plain:
            gap = self.gap[0]
            span = f"{100 * gap.value:.2f} points (95 % interval {100 * gap.low:.1f} to {100 * gap.high:.1f})"
            return (
                f"{self.why}, so {self.plain} is what you get: {what} "
                f"{'cannot be estimated' if math.isnan(gap.value) else span}, accuracy "
                f"{100 * self.accuracy.a:.2f} %."
            )
        change, low, high = (100 * value for value in self.change)
        cost = f"accuracy {100 * self.accuracy.a:.2f} → {100 * self.accuracy.b:.2f}"
        if math.isnan(change):
            return f"No verdict: the {what} cannot be estimated on {self.before.n:,} test rows; {cost}."
        verdict = {"helps": "Helps", "no-effect": "No clear effect", "worse": "Worse"}[self.word]
        if self.levelled:
            verdict = SAID[self.levelled]
        if self.outside_limits:
            verdict = f"Smaller {self.criterion.noun}, outside the {'budget' if self._too_costly else 'bound'}"
        return (
            f"{verdict}: {what} {100 * self.gap[0].value:.2f} → {100 * self.gap[1].value:.2f} points "
            f"({change:+.2f}, 95 % interval {low:+.1f} to {high:+.1f}), {cost} "
            f"({100 * self.accuracy.value:+.2f}), by {self.chosen} beside {self.plain}, on {self.before.n:,} test rows."
        )


def verdict_between(
    result: Result, plain: Result, dataset: Dataset, goal: Goal, judged: Mapping[str, Any] | None = None
) -> Verdict:
    """The verdict on a run beside plain training's; judged: what it was chosen by, as metrics.json holds it."""
    after, labels, groups = result.folder.read_logits("test")
    before, run = plain.folder.read_logits("test")[0], result.metrics.get("run", {})
    fields: dict[str, Any] = {"chosen": result.spec.title, "plain": PLAIN}
    if judged is not None:
        fields = {"chosen": judged["chosen"], "plain": judged["reference"], "notes": tuple(judged.get("notes", ()))}
        fields |= {"kept_plain": judged["chosen"] == judged["reference"], "why": judged.get("why", NOTHING)}
    fields["kept_epoch"] = run.get("best_epoch") or run.get("epochs")
    return verdict_on(dataset.preprocessing.meaning, goal, labels, groups, before, after, **fields)


def verdict_on(
    meaning: Meaning, goal: Goal, labels: Tensor, groups: Tensor | None, before: Tensor, after: Tensor, **fields: Any
) -> Verdict:
    """The verdict on logits beside plain training's, of the same samples; fields: the others of the verdict."""
    codes = None if groups is None or not meaning.group_names else groups.cpu().numpy()
    calibration = {
        when: calibration_by_group(
            probabilities(outputs.double().cpu()).numpy(), labels.cpu().numpy(), codes, meaning.group_names
        )
        for when, outputs in (("before", before), ("after", after))
    }
    first, last = (by_group(meaning, labels, predicted(outputs), groups) for outputs in (before, after))
    if len(meaning.label_names) == 2 and (positive := last.samples.positive) is not None and not last.by_label:
        threshold = predictions_at_share_of(before, predicted(after), positive)
        fields["moved"] = by_group(meaning, labels, threshold, groups)
    return Verdict(
        goal.criterion, first, last, budget=goal.allowed, bound=goal.bound, calibration=calibration, **fields
    )


def in_points(found: Estimate) -> str:
    """A number with its interval, in points."""
    if math.isnan(found.value):
        return "–"
    return f"{100 * found.value:.2f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _apart(value: float, low: float, high: float) -> str:
    """A difference with its interval, in points."""
    return "–" if math.isnan(value) else f"{100 * value:+.2f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def limits_of(found: Estimate | Difference) -> dict[str, Any]:
    """Value and interval as plain values, None for what cannot be said."""
    return known_values({"value": found.value, "low": found.low, "high": found.high})
