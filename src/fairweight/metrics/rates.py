"""Rates by group and the numbers that sum them up, for counts with any number of draws before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairweight.errors import UnknownName
from fairweight.metrics._samples import Ints
from fairweight.metrics._tally import Amounts, Counts, Floats, Strata

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
    "equalised_odds_gap": "equalised-odds gap",
    "selection_rate_gap": "selection-rate gap",
    "tpr_std": "TPR, standard deviation",
    "tpr_worst_tenth": "TPR, worst tenth",
}


@dataclass(frozen=True)
class View:
    """What is compared: groups on each target label, or (by_label) the labels among themselves.

    Rates have the shape [..., R, T]: R rows, each a group (or a label), and T targets: the positive label, or
    every label where there is no positive one, or 1 where the labels are the rows.
    """

    by_label: bool
    targets: Ints  # [T] codes of the labels whose rates are taken

    def proportion(self, metric: str, counts: Counts) -> tuple[Amounts, Amounts]:
        """Hits and trials of a rate: [..., R, T]; of accuracy, [..., R, 1]."""
        everyone = counts.samples.sum(axis=-1, keepdims=True)  # [..., G, 1]
        if metric == "accuracy" and not self.by_label:
            return counts.correct.sum(axis=-1, keepdims=True), everyone
        if self.by_label:  # the labels of the one group [..., 1, K] become the rows [..., K, 1]
            counts = counts.map(lambda part: part.swapaxes(-1, -2))
        else:
            counts = counts.map(lambda part: part[..., self.targets])
        if metric in ("tpr", "accuracy", "balanced_accuracy"):  # among the samples of a label, right means found
            return counts.correct, counts.samples
        if metric == "fnr":
            return counts.samples - counts.correct, counts.samples
        if metric == "fpr":
            return counts.predicted - counts.correct, everyone - counts.samples
        return counts.predicted, np.broadcast_to(everyone, counts.predicted.shape)

    def cells(self, metric: str, counts: Counts) -> Floats:
        """A metric by row and target: [..., R, T]; NaN where there are no samples."""
        if metric == "balanced_accuracy" and not self.by_label:
            return mean(divide(counts.correct, counts.samples), axis=-1)[..., None]
        return divide(*self.proportion(metric, counts))

    def rows(self, metric: str, counts: Counts) -> Floats:
        """A metric by row [..., R]; over several targets their mean, but not of selection rates, which is 1 / T."""
        cells = self.cells(metric, counts)
        if cells.shape[-1] > 1 and metric == "selection_rate":
            return np.full(cells.shape[:-1], np.nan)
        return mean(cells, axis=-1)

    def pooled(self) -> View:
        """The view of all groups as one."""
        return View(by_label=False, targets=self.targets)


def divide(hits: Amounts, trials: Amounts) -> Floats:
    """hits / trials, NaN where there were no trials."""
    out: Floats = np.full(hits.shape, np.nan)
    return np.divide(hits, trials, out=out, where=trials > 0)


def highest(values: Floats, axis: int) -> Floats:
    """The largest of what could be estimated; NaN where nothing could."""
    found: Floats = np.fmax.reduce(values, axis=axis)
    return found


def lowest(values: Floats, axis: int) -> Floats:
    """The smallest of what could be estimated; NaN where nothing could."""
    found: Floats = np.fmin.reduce(values, axis=axis)
    return found


def mean(values: Floats, axis: int) -> Floats:
    """The mean of what could be estimated; NaN where nothing could."""
    known = ~np.isnan(values)
    return divide(np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis))


def _compared(values: Floats, found: Floats) -> Floats:
    """Keep what compares two rows or more [..., T]; one row alone has no gap."""
    return np.where((~np.isnan(values)).sum(axis=-2) > 1, found, np.nan)


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


def worst(values: Floats, high_is_worse: bool = False) -> Floats:
    """The worst of all rows and targets."""
    return highest(highest(values, -1), -1) if high_is_worse else lowest(lowest(values, -1), -1)


def worst_tenth(values: Floats, high_is_worse: bool = False) -> Floats:
    """Mean of the worst tenth, rounded up, of the rows and targets that could be estimated."""
    flat = values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])
    flat = np.sort(-flat if high_is_worse else flat, axis=-1)  # NaNs sort last
    n = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    kept = mean(np.where(np.arange(flat.shape[-1]) < -(-n // 10), flat, np.nan), -1)
    return -kept if high_is_worse else kept


Kind = Literal["overall", "gap", "ratio", "std", "worst", "worst_tenth", "odds"]
_NAMED: dict[str, tuple[Kind, str]] = {
    "tprd": ("gap", "tpr"),
    "max_fnr": ("worst", "fnr"),
    "worst_group_accuracy": ("worst", "accuracy"),
    "equalised_odds_gap": ("odds", "tpr"),
}
_ENDINGS: tuple[Kind, ...] = ("worst_tenth", "gap", "ratio", "std", "worst")


@dataclass(frozen=True)
class Statistic:
    """One number that sums up a table: what is taken over the groups, and of which metric."""

    kind: Kind
    metric: str

    @classmethod
    def find(cls, name: str, metrics: tuple[str, ...] = METRICS) -> Statistic | None:
        """The statistic of this name, such as tprd or accuracy_gap; None where there is none."""
        if name in _NAMED:
            return cls(*_NAMED[name])
        if name in metrics:
            return cls("overall", name)
        for kind in _ENDINGS:
            metric = name.removesuffix(f"_{kind}")
            if metric != name and metric in metrics:
                return cls(kind, metric)
        return None

    @classmethod
    def named(cls, name: str, custom: tuple[str, ...] = ()) -> Statistic:
        """The statistic of this name; custom: the metrics that the caller added."""
        known = (*METRICS, *custom)
        found = cls.find(name, known)
        if found is None:
            raise UnknownName(
                f"{name!r} is no number of this table; choose from: {', '.join(SCALARS)}, or a metric "
                f"({', '.join(known)}), alone or with _gap, _ratio, _std, _worst or _worst_tenth after it."
            )
        return found

    @property
    def high_is_worse(self) -> bool:
        """Whether the worst group is the one with the highest value."""
        return self.metric in HIGH_IS_WORSE

    def __call__(self, counts: Counts, view: View) -> Floats:
        """The statistic's value for counts with any number of draws before them: [...]."""
        if self.kind == "overall":
            return view.pooled().rows(self.metric, counts.pooled())[..., 0]
        if self.kind == "odds":  # NaN where either half is: half of the odds can look fair
            return np.maximum(*(gap(view.cells(metric, counts)) for metric in ("tpr", "fpr")))
        return self.of(view.cells(self.metric, counts))

    def of(self, cells: Floats) -> Floats:
        """The statistic of a metric by row and target [..., R, T]."""
        if self.kind == "worst":
            return worst(cells, self.high_is_worse)
        if self.kind == "worst_tenth":
            return worst_tenth(cells, self.high_is_worse)
        return {"gap": gap, "ratio": ratio, "std": spread}[self.kind](cells)

    def strata(self, view: View) -> Strata:
        """What resampling must keep: a rate among a label's samples keeps their number, others the group's."""
        if self.metric in ("selection_rate", "accuracy") and not (view.by_label and self.kind != "overall"):
            return "all" if self.kind == "overall" else "group"
        return "all" if self.metric == "selection_rate" else "cell"
