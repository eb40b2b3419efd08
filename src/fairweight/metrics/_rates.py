"""Rates by group, and the numbers that sum them up, of counts with any number of draws before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairweight.metrics._columns import Ints
from fairweight.metrics._tally import Amounts, Counts, Floats

PROPORTIONS = ("accuracy", "tpr", "fnr", "fpr", "selection_rate")  # the columns of a table
METRICS = (*PROPORTIONS, "balanced_accuracy")
BY_CELL = ("tpr", "fnr", "fpr", "selection_rate")  # one per label, where several labels are compared
HIGH_IS_WORSE = ("fnr", "fpr")


@dataclass(frozen=True)
class View:
    """What is compared: groups on each target label, or (by_label) the labels among themselves.

    Rates have the shape [..., R, T]: R rows, each a group (or a label), and T targets: the positive label, or
    every label where there is no positive one, or 1 where the labels are the rows.
    """

    by_label: bool
    targets: Ints  # [T] codes of the labels whose rates are taken

    def _turned(self, counts: Counts) -> Counts:
        """By label, what was the one group's labels [..., 1, K] becomes the rows [..., K, 1]."""
        return Counts(*(part.swapaxes(-1, -2) for part in (counts.samples, counts.correct, counts.predicted)))

    def proportion(self, metric: str, counts: Counts) -> tuple[Amounts, Amounts]:
        """Hits and trials of a rate: [..., R, T]; of accuracy, [..., R, 1]."""
        everyone = counts.samples.sum(axis=-1, keepdims=True)  # [..., G, 1]
        if metric == "accuracy" and not self.by_label:
            return counts.correct.sum(axis=-1, keepdims=True), everyone
        if self.by_label:
            counts = self._turned(counts)
        else:
            counts = Counts(*(part[..., self.targets] for part in (counts.samples, counts.correct, counts.predicted)))
        if metric in ("tpr", "accuracy"):  # among the samples of a label, to be right is to be found
            return counts.correct, counts.samples
        if metric == "fnr":
            return counts.samples - counts.correct, counts.samples
        if metric == "fpr":
            return counts.predicted - counts.correct, everyone - counts.samples
        return counts.predicted, np.broadcast_to(everyone, counts.predicted.shape)

    def cells(self, metric: str, counts: Counts) -> Floats:
        """A metric by row and target: [..., R, T]; NaN where nobody is there to count."""
        if metric == "balanced_accuracy" and not self.by_label:
            return mean(divide(counts.correct, counts.samples), axis=-1)[..., None]
        return divide(*self.proportion("tpr" if metric == "balanced_accuracy" else metric, counts))

    def rows(self, metric: str, counts: Counts) -> Floats:
        """A metric by row [..., R]; over several targets their mean, but not of selection rates, which is 1 / T."""
        cells = self.cells(metric, counts)
        if cells.shape[-1] > 1 and metric == "selection_rate":
            return np.full(cells.shape[:-1], np.nan)
        return mean(cells, axis=-1)

    def overall(self, metric: str, counts: Counts) -> Floats:
        """A metric of all samples together: [...]."""
        return View(by_label=False, targets=self.targets).rows(metric, counts.pooled())[..., 0]


def divide(hits: Amounts, trials: Amounts) -> Floats:
    """hits / trials, NaN where there were no trials."""
    out: Floats = np.full(hits.shape, np.nan)
    return np.divide(hits, trials, out=out, where=trials > 0)


def highest(values: Floats, axis: int) -> Floats:
    """The largest of what could be estimated; NaN where nothing could."""
    found = np.where(np.isnan(values), -np.inf, values).max(axis=axis, initial=-np.inf)
    return np.where(np.isneginf(found), np.nan, found)


def lowest(values: Floats, axis: int) -> Floats:
    """The smallest of what could be estimated; NaN where nothing could."""
    return -highest(-values, axis)


def mean(values: Floats, axis: int) -> Floats:
    """The mean of what could be estimated; NaN where nothing could."""
    known = ~np.isnan(values)
    n = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return divide(total, n)


def _compared(values: Floats, found: Floats) -> Floats:
    """Keep what compares two rows or more [..., T]; one row alone has no gap."""
    return np.where((~np.isnan(values)).sum(axis=-2) > 1, found, np.nan)


def gap(values: Floats) -> Floats:
    """Largest minus smallest over the rows of [..., R, T], for the target where it is largest."""
    return highest(_compared(values, highest(values, -2) - lowest(values, -2)), -1)


def ratio(values: Floats) -> Floats:
    """Smallest over largest over the rows, for the target where it is smallest; NaN where all are 0."""
    top = highest(values, -2)
    share = np.divide(lowest(values, -2), top, out=np.full(top.shape, np.nan), where=top > 0)
    return lowest(_compared(values, share), -1)


def spread(values: Floats) -> Floats:
    """Standard deviation over the rows (these are all there are: no n - 1), for the target where it is largest."""
    centred = values - mean(values, -2)[..., None, :]
    return highest(_compared(values, np.sqrt(mean(centred * centred, -2))), -1)


def _flat(values: Floats) -> Floats:
    """Rows and targets in one: [..., R * T], with or without draws."""
    return values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])


def worst_tenth(values: Floats, high_is_worse: bool = False) -> Floats:
    """Mean of the worst tenth, rounded up, of the rows and targets that could be estimated."""
    flat = _flat(values)
    flat = np.sort(-flat if high_is_worse else flat, axis=-1)  # NaNs sort last
    n = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    kept = mean(np.where(np.arange(flat.shape[-1]) < -(-n // 10), flat, np.nan), -1)
    return -kept if high_is_worse else kept


def worst(values: Floats, high_is_worse: bool = False) -> Floats:
    """The worst of all rows and targets."""
    flat = _flat(values)
    return highest(flat, -1) if high_is_worse else lowest(flat, -1)


SUMMARIES: dict[str, Callable[[Floats], Floats]] = {"gap": gap, "ratio": ratio, "std": spread}
