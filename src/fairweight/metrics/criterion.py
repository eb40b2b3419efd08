"""What is meant by fair: one value for objective, selection, table, verdict and page.

fair = criterion("equal-opportunity")
fair.gap(table)                     # of a GroupTable: 0 is even
fair.estimate(table)                # with its interval
fair.gap_of(confusion(labels, predictions, groups, classes=2))
fair.objective(classes=2)           # the term that FORML's objective adds to the mean loss
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput, UnknownName, option
from fairweight.metrics.group_table import GroupTable
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import Counts, Floats, gap, mean, worst

Ints = npt.NDArray[Any]
Rate = Literal["tpr", "fpr", "selection_rate", "precision", "accuracy"]
POSITIVE = 1  # the code of the positive one of two labels
DRAWS = 1000
FEWEST = 10  # rows behind a rate: resampling fewer says little of chance
# By the weights of negatives and of positives: what raises a rate of the positive label, and what lowers it.
RAISED_BY: Mapping[Rate, tuple[int, int]] = {
    "tpr": (0, 1), "fpr": (-1, 0), "selection_rate": (-1, 1), "precision": (1, 0)
}  # fmt: skip


@dataclass(frozen=True)
class Criterion:
    """A gap between groups that should be small.

    rates: those that are to be even; the largest of their gaps counts. number: what a GroupTable calls the gap, where
    it has it. views: by sensitive column, the value that each crossed group has there; the worst column counts.

    Examples:
        >>> import fairweight as fw
        >>> from fairweight.metrics.criterion import criterion
        >>> fair = criterion("equal-opportunity")
        >>> fair.gap(fw.group_table(labels=[1, 1, 1, 1], predictions=[1, 1, 1, 0], groups=list("aabb")))
        0.5
    """

    name: str
    rates: tuple[Rate, ...]
    sentence: str
    wanted_by: str
    term: str  # objective that compares groups
    number: str | None = None
    worst: bool = False  # the worst group's error counts, not a difference
    every_label: bool = False  # rates of every label, not of the positive one alone
    views: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def title(self) -> str:
        """Name, and the columns side by side."""
        return f"{self.name} (worst of {', '.join(name for name, _ in self.views)})" if self.views else self.name

    @property
    def noun(self) -> str:
        """What should be small: a gap, or the worst group's error."""
        return "error" if self.worst else "gap"

    @property
    def measure(self) -> str:
        """What should be small, with the criterion's name."""
        return f"{self.title} {self.noun}"

    def each(self, columns: Sequence[str], values: Sequence[Sequence[str]]) -> Criterion:
        """Judge the columns side by side; values: of every crossed group, by column."""  # [G][columns]
        found = []
        for column, own in zip(columns, zip(*values, strict=True), strict=True):
            codes = list(dict.fromkeys(own))
            found.append((column, tuple(codes.index(value) for value in own)))
        return replace(self, views=tuple(found))

    def by_column(self, table: GroupTable) -> dict[str, float]:
        """The gap of each column that stands side by side with others."""
        return {name: float(gap) for name, gap in self._by_view(self.counts_of(table)).items()}

    def _by_view(self, counts: Ints, behind: Ints | None = None) -> dict[str, Floats]:
        alone = replace(self, views=())
        known = {name: None if behind is None else _merged(behind, codes) for name, codes in self.views}
        return {name: alone.gap_of(_merged(counts, codes), behind=known[name]) for name, codes in self.views}

    def check(self, *, groups: bool) -> Criterion:
        """Refuse data that it says nothing about."""
        if not groups and not (self.every_label or self.worst):
            raise BadInput(
                f"{option('criterion', self.name)} compares groups, and none are given; name a column with "
                f"{option('group')}, or choose recall-parity to compare the classes."
            )
        return self

    def objective(self, classes: int = 2, *, groups: bool = True) -> str:
        """Objective that compares groups, as words; the mean loss stands beside it."""
        if not groups:
            return "worst-group" if self.worst else "variance"
        return "equal-odds" if classes > 2 and self.term == "equal-opportunity-rate" else self.term

    def gap(self, table: GroupTable) -> float:
        """The gap of a table, as a fraction; NaN where it cannot be estimated."""
        return float(self.gap_of(self.counts_of(table), by_label=table.by_label))

    def counts_of(self, table: GroupTable) -> Ints:
        """Counts of a table's samples, in which the positive label has the code 1."""  # [G, K, K]
        samples = table.samples
        labels, said = samples.labels, samples.predictions
        classes = len(samples.label_axis)
        if samples.positive is not None and classes == 2 and samples.positive != POSITIVE:
            labels, said = 1 - labels, 1 - said  # the positive one's code is another here
        return confusion(labels, said, samples.groups, classes=classes, group_count=len(samples.group_axis))

    def estimate(self, table: GroupTable) -> Estimate:
        """The gap with its interval."""
        every = self.every_label and (table.by_label or len(table.samples.label_axis) > 2)
        number = "tprd" if every else self.number  # one number has one interval
        if number is not None and not self.views and not (table.by_label and self.worst):
            found = table.estimate(number)
            flip = self.worst  # the table has the worst accuracy, and the gap is its error
            return Estimate(1 - found.value, 1 - found.high, 1 - found.low, found.n) if flip else found
        counts = self.counts_of(table)
        drawn = np.random.default_rng(table.intervals.seed).multinomial(
            int(counts.sum()), counts.ravel() / max(1, counts.sum()), size=DRAWS
        )
        gaps = self.gap_of(drawn.reshape(DRAWS, *counts.shape), by_label=table.by_label)
        low, high = np.nanquantile(gaps, [0.025, 0.975]) if np.isfinite(gaps).any() else (np.nan, np.nan)
        return Estimate(self.gap(table), float(low), float(high), table.n)

    def fewest(self, table: GroupTable) -> int:
        """The fewest samples that a rate of a group is measured on; groups without any take no part."""
        counts = self.counts_of(table)
        every = [counts] if table.by_label or not self.views else [_merged(counts, codes) for _, codes in self.views]
        sizes = [self._counts(samples, table.by_label).proportion(rate)[1] for samples in every for rate in self.rates]
        return min((int(size) for each in sizes for size in np.unique(each) if size > 0), default=0)

    def few(self, counts: Ints, *, by_label: bool = False) -> list[int]:
        """Rows (groups, or labels where they stand for groups) that have a rate on fewer than FEWEST samples."""
        trials = [self._counts(counts, by_label).proportion(rate)[1] for rate in self.rates]  # [R, T] each
        return np.flatnonzero(np.any([((n > 0) & (n < FEWEST)).any(axis=-1) for n in trials], axis=0)).tolist()

    def by_group(self, counts: Ints, rate: Rate, *, by_label: bool = False, behind: Ints | None = None) -> Floats:
        """A rate by row and label [..., R, T]: rows are groups, or the labels where they stand for groups.

        behind: counts [G, K, K]; a rate that fewer than FEWEST of these samples stand behind is not known.
        """
        rates = self._counts(counts, by_label).cells(rate)
        if behind is not None:
            rates = np.where(self._counts(behind, by_label).proportion(rate)[1] < FEWEST, np.nan, rates)
        return rates

    def _counts(self, counts: Ints, by_label: bool) -> Counts:
        counts = np.asarray(counts, dtype=np.float64)  # [..., G, K, K]: label, then prediction
        counts = counts.sum(axis=-3, keepdims=True) if by_label else counts
        classes = counts.shape[-1]
        positive_alone = classes == 2 and not self.every_label and not by_label
        targets = np.array([POSITIVE]) if positive_alone else np.arange(classes)
        right = np.diagonal(counts, axis1=-2, axis2=-1)  # [..., G, K]
        return Counts(counts.sum(axis=-1), right, counts.sum(axis=-2), targets, by_label)

    def gap_of(self, counts: Ints, *, by_label: bool = False, behind: Ints | None = None) -> Floats:
        """The gap of counts [..., G, K, K] by group, label and prediction; behind: as for by_group."""  # [...]
        if self.views and not by_label:
            return np.asarray(np.fmax.reduce(list(self._by_view(counts, behind).values())))
        values = [self.by_group(counts, rate, by_label=by_label, behind=behind) for rate in self.rates]
        return np.asarray(np.max([1 - worst(each) if self.worst else gap(each) for each in values], axis=0))

    def pressure(self, counts: Ints, *, by_label: bool = False) -> Floats:
        """How far each group's rate lies below the mean, for the cells whose weight would raise it.

        A rate on fewer than FEWEST samples pushes nothing.
        """  # [G, K]
        if self.views and not by_label:
            alone = replace(self, views=())
            every = [alone.pressure(_merged(counts, codes))[list(codes)] for _, codes in self.views]
            return np.asarray(np.sum(every, axis=0))
        groups, classes = counts.shape[-3], counts.shape[-1]
        push = np.zeros((groups, classes))
        for rate in self.rates:
            values = self.by_group(counts, rate, by_label=by_label, behind=counts)  # [R, T]
            below = np.nan_to_num(mean(values, axis=0) - values)  # [R, T]
            if by_label:
                push[0] += below[:, 0]
            elif rate == "accuracy":
                push += below
            elif below.shape[1] == classes:  # each label against the others
                push += -below if rate in ("fpr", "precision") else below
            else:
                push += below * np.array(RAISED_BY[rate])
        return push


_ALL = (
    Criterion(
        "equal-opportunity", ("tpr",),
        "Those who have the positive label are found equally often in every group (true positive rate).",
        "whoever gives out loans, jobs or places, and must not overlook good applicants of one group",
        "equal-opportunity-rate", "tprd",
    ),
    Criterion(
        "equalized-odds", ("tpr", "fpr"),
        "True and false positive rates are both equal: neither kind of error falls on one group.",
        "whoever does harm by both errors, as in decisions on bail or in fraud alarms",
        "equal-odds", "equalised_odds_gap",
    ),
    Criterion(
        "demographic-parity", ("selection_rate",),
        "Every group is predicted positive equally often, whatever its labels say.",
        "whoever doubts the labels themselves, or must invite or advertise evenly",
        "equal-opportunity-rate", "selection_rate_gap",
    ),
    Criterion(
        "predictive-parity", ("precision",),
        "A positive prediction is right equally often in every group (precision).",
        "whoever acts on positives, such as a doctor who treats or an inspector who visits",
        "equal-odds",
    ),
    Criterion(
        "accuracy-parity", ("accuracy",),
        "Predictions are right equally often in every group.",
        "whoever builds a recogniser of faces or speech that must work equally well for everybody",
        "max-discrepancy", "accuracy_gap",
    ),
    Criterion(
        "worst-group", ("accuracy",),
        "The group with the most errors has as few as possible; others may do better.",
        "whoever promises every group a minimum quality, and accepts a gap above it",
        "worst-group", "worst_group_accuracy", worst=True,
    ),
    Criterion(
        "recall-parity", ("tpr",),
        "Every class is found equally often (TPRD), or every class in each of the groups.",
        "whoever sorts into several classes, none of which may be neglected",
        "equal-odds", every_label=True,
    ),
)  # fmt: skip
CRITERIA: Mapping[str, Criterion] = {criterion.name: criterion for criterion in _ALL}


def criterion(name: str) -> Criterion:
    """The criterion of this name, as `fairweight list criteria` shows them."""
    found = CRITERIA.get(name.replace("_", "-"))
    if found is None:
        raise UnknownName(f"{name!r} is no criterion; choose from: {', '.join(CRITERIA)}.")
    return found


def default_criterion(classes: int, *, groups: bool) -> Criterion:
    """Equal opportunity for two classes with groups; recall parity where there are more, or the label is the group."""
    return CRITERIA["equal-opportunity" if classes == 2 and groups else "recall-parity"]


def confusion(labels: Ints, predictions: Ints, groups: Ints | None, *, classes: int, group_count: int = 0) -> Ints:
    """Counts by group, label and prediction; samples whose group is not known (-1) are left out."""  # [G, K, K]
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    rows = np.zeros_like(labels) if groups is None else np.asarray(groups)
    known = rows >= 0
    size = max(group_count, int(rows.max(initial=0)) + 1)
    flat = (rows * classes + labels) * classes + predictions
    return np.bincount(flat[known], minlength=size * classes * classes).reshape(size, classes, classes)


def _merged(counts: Ints, codes: Sequence[int]) -> Ints:
    """Counts of groups that have the same value, added up."""  # [..., V, K, K] from [..., G, K, K]
    member = np.eye(max(codes) + 1)[list(codes)]  # [G, V]
    groups = np.asarray(counts).shape[-3]  # the last ones may have no row
    return np.asarray(np.einsum("gv,...gkl->...vkl", member[:groups], np.asarray(counts)))
