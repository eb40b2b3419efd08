"""Rates by group and the numbers that sum them up, for counts with any number of draws before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.errors import UnknownName
from fairweight.metrics._samples import Ints

Floats: TypeAlias = npt.NDArray[np.float64]
Amounts: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"  # fractions of samples, where smoothed
# What a draw keeps as it is: the number of samples, of samples in each group, or in each label x group.
Strata: TypeAlias = Literal["all", "group", "cell"]
PROPORTIONS = ("accuracy", "tpr", "fnr", "fpr", "selection_rate")  # the columns of a table
METRICS = (*PROPORTIONS, "balanced_accuracy")
BY_CELL = ("tpr", "fnr", "fpr", "selection_rate")  # one per label, where several labels are compared
HIGH_IS_WORSE = ("fnr", "fpr")
SCALARS = {  # the numbers that every table reports
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "worst_group_accuracy": "worst group's accuracy",
    "tprd": "TPRD",
    "max_fnr": "maxFNR",
    "fpr_gap": "FPR gap",
    "equalised_odds_gap": "equalized-odds gap",
    "selection_rate_gap": "selection-rate gap",
    "tpr_std": "TPR, standard deviation",
    "tpr_worst_tenth": "TPR, worst tenth",
}


@dataclass(frozen=True)
class Counts:
    """What the rates are made of, by group and label; draws may stand before.

    Rates have the shape [..., R, T]: R rows, each a group, and T targets, the labels whose rates are taken: the
    positive label, or every label where there is no positive one. Where labels are compared among themselves
    (by_label), they are the rows of the one group, and T is 1.
    """

    samples: Amounts  # [..., G, K] of this label
    correct: Amounts  # [..., G, K] of this label and predicted so
    predicted: Amounts  # [..., G, K] predicted as this label
    targets: Ints  # [T] codes of the labels
    by_label: bool

    def pooled(self) -> Counts:
        samples, correct, predicted = (
            part.sum(axis=-2, keepdims=True) for part in (self.samples, self.correct, self.predicted)
        )
        return Counts(samples, correct, predicted, self.targets, by_label=False)

    def proportion(self, metric: str) -> tuple[Amounts, Amounts]:
        """Hits and trials of a rate: [..., R, T]; of accuracy, [..., R, 1]."""
        group_sizes = self.samples.sum(axis=-1, keepdims=True)  # [..., G, 1]
        if metric == "accuracy" and not self.by_label:
            return self.correct.sum(axis=-1, keepdims=True), group_sizes
        samples, correct, predicted = (
            part.swapaxes(-1, -2) if self.by_label else part[..., self.targets]
            for part in (self.samples, self.correct, self.predicted)
        )
        if metric in ("tpr", "accuracy", "balanced_accuracy"):  # among the samples of a label, right means found
            return correct, samples
        if metric == "fnr":
            return samples - correct, samples
        if metric == "fpr":
            return predicted - correct, group_sizes - samples
        if metric == "precision":
            return correct, predicted
        return predicted, np.broadcast_to(group_sizes, predicted.shape)

    def cells(self, metric: str) -> Floats:
        """A metric by row and target: [..., R, T]; NaN where there are no samples."""
        if metric == "balanced_accuracy" and not self.by_label:
            return mean(divide(self.correct, self.samples), axis=-1)[..., None]
        return divide(*self.proportion(metric))

    def rows(self, metric: str) -> Floats:
        """A metric by row [..., R]; over several targets their mean, but not of selection rates, which is 1 / T."""
        cells = self.cells(metric)
        if cells.shape[-1] > 1 and metric == "selection_rate":
            return np.full(cells.shape[:-1], np.nan)
        return mean(cells, axis=-1)


def divide(hits: Amounts, trials: Amounts) -> Floats:
    """hits / trials, NaN where there were no trials."""
    out: Floats = np.full(hits.shape, np.nan)
    return np.divide(hits, trials, out=out, where=trials > 0)


# The largest and the smallest of what could be estimated; NaN where nothing could.
highest: Callable[[Floats, int], Floats] = np.fmax.reduce
lowest: Callable[[Floats, int], Floats] = np.fmin.reduce


def mean(values: Floats, axis: int) -> Floats:
    """The mean of what could be estimated; NaN where nothing could."""
    known = ~np.isnan(values)
    return divide(np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis))


def _compared(values: Floats, result: Floats) -> Floats:
    """Keep results [..., T] that compare two rows or more; one row alone has no gap."""
    return np.where((~np.isnan(values)).sum(axis=-2) > 1, result, np.nan)


def gap(values: Floats) -> Floats:
    """Largest minus smallest over the rows of [..., R, T], for the target where it is largest."""
    return highest(_compared(values, highest(values, -2) - lowest(values, -2)), -1)


def ratio(values: Floats) -> Floats:
    """Smallest over largest over the rows, for the target where it is smallest; NaN where all are 0."""
    return lowest(_compared(values, divide(lowest(values, -2), highest(values, -2))), -1)


def spread(values: Floats) -> Floats:
    """Standard deviation over the rows (these are all there are: no n - 1), for the target where it is largest."""
    centred = values - mean(values, -2)[..., None, :]
    return highest(_compared(values, np.sqrt(mean(centred * centred, -2))), -1)


def worst(values: Floats) -> Floats:
    """The lowest of all rows and targets."""
    return lowest(lowest(values, -1), -1)


def worst_tenth(values: Floats) -> Floats:
    """Mean of the lowest tenth, rounded up, of the rows and targets that could be estimated."""
    flat = np.sort(values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1]), axis=-1)  # NaNs sort last
    n = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    return mean(np.where(np.arange(flat.shape[-1]) < -(-n // 10), flat, np.nan), -1)


Kind = Literal["overall", "gap", "ratio", "std", "worst", "worst_tenth", "odds"]
_OVER_GROUPS: dict[Kind, Callable[[Floats], Floats]] = {
    "gap": gap,
    "ratio": ratio,
    "std": spread,
    "worst": worst,
    "worst_tenth": worst_tenth,
}


@dataclass(frozen=True)
class Statistic:
    """One number that sums up a table: what is taken over the groups, and of which metric."""

    kind: Kind
    metric: str

    @classmethod
    def named(cls, name: str, custom: tuple[str, ...] = ()) -> Statistic:
        known = (*METRICS, *custom)
        statistic = statistics(known).get(name)
        if statistic is None:
            raise UnknownName(
                f"{name!r} is no number of this table; choose from: {', '.join(SCALARS)}, or a metric "
                f"({', '.join(known)}), alone or with _gap, _ratio, _std, _worst or _worst_tenth after it."
            )
        return statistic

    @property
    def high_is_worse(self) -> bool:
        return self.metric in HIGH_IS_WORSE

    def __call__(self, counts: Counts) -> Floats:
        """The statistic's value for counts with any number of draws before them: [...]."""
        if self.kind == "overall":
            return counts.pooled().rows(self.metric)[..., 0]
        if self.kind == "odds":  # NaN where either half is: half of the odds can look fair
            return np.maximum(*(gap(counts.cells(metric)) for metric in ("tpr", "fpr")))
        return self.of(counts.cells(self.metric))

    def of(self, cells: Floats) -> Floats:
        """The statistic of a metric by row and target [..., R, T]."""
        over_groups = _OVER_GROUPS[self.kind]
        if self.high_is_worse and self.kind in ("worst", "worst_tenth"):
            return -over_groups(-cells)
        return over_groups(cells)

    def strata(self, by_label: bool) -> Strata:
        """What resampling must keep: a rate among a label's samples keeps their number, others the group's."""
        if self.metric in ("selection_rate", "accuracy") and not (by_label and self.kind != "overall"):
            return "all" if self.kind == "overall" else "group"
        return "all" if self.metric == "selection_rate" else "cell"


@lru_cache
def statistics(metrics: tuple[str, ...] = METRICS) -> dict[str, Statistic]:
    """Every number that sums up a table of these metrics, by name, such as tprd or accuracy_gap."""
    over_groups = {f"{metric}_{kind}": Statistic(kind, metric) for metric in metrics for kind in _OVER_GROUPS}
    return over_groups | {metric: Statistic("overall", metric) for metric in metrics} | {
        "tprd": Statistic("gap", "tpr"),
        "max_fnr": Statistic("worst", "fnr"),
        "worst_group_accuracy": Statistic("worst", "accuracy"),
        "equalised_odds_gap": Statistic("odds", "tpr"),
    }  # fmt: skip
