"""One metric by row (group) and target (label), with intervals: a rate of counts, or a function of the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics import intervals
from fairweight.metrics._samples import CodedSamples, Ints
from fairweight.metrics._tally import Tally, bootstrap
from fairweight.metrics.intervals import Estimate, Intervals, Limits, equal_rows
from fairweight.metrics.rates import PROPORTIONS, Counts, Floats, Statistic, divide

Metric: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]


class Estimates(NamedTuple):
    """Values with their limits and the samples behind each, all of one shape."""

    value: Floats
    low: Floats
    high: Floats
    n: Ints

    def at(self, place: int | tuple[int, int]) -> Estimate:
        return Estimate(float(self.value[place]), float(self.low[place]), float(self.high[place]), int(self.n[place]))


class RateMetric:
    """A built-in metric, from counts."""

    def __init__(self, name: str, tally: Tally, counts: Counts, settings: Intervals) -> None:
        self.name = name
        self._tally, self._counts, self._settings = tally, counts, settings
        self.values = counts.cells(name)  # [R, T]; T is 1 for what is not taken label by label
        self.row_values = counts.rows(name)  # [R]
        self.trials = self._trials(name if name in PROPORTIONS else "accuracy")  # [R, T] samples behind each value

    def cells(self) -> Estimates:
        return Estimates(self.values, *self._score_limits(self.name)(self._settings.z), self.trials)

    def rows(self) -> Estimates:
        several = self.values.shape[1] > 1
        n = (self._trials("accuracy") if several else self.trials)[:, 0]
        if several and self.name == "selection_rate":  # no such number: see Counts.rows
            return Estimates(self.row_values, self.row_values, self.row_values, n)
        limits = self._score_limits(self.name)(self._settings.z)
        return Estimates(self.row_values, *intervals.mean_limits(self.values, *limits, disjoint=self.name != "fpr"), n)

    def _trials(self, metric: str) -> Ints:
        return self._counts.proportion(metric)[1].astype(np.int64)

    def value(self, statistic: Statistic) -> float:
        return float(statistic(self._counts))

    def limits(self, statistic: Statistic) -> tuple[float, float]:
        level, value = self._settings.level, self.value(statistic)
        if math.isnan(value):
            return math.nan, math.nan
        if statistic.kind == "overall":
            pooled = RateMetric(self.name, self._tally, self._counts.pooled(), self._settings)
            return pooled.rows().at(0)[1:3]
        if statistic.kind in ("gap", "odds"):
            low, high = self._gap_limits(("tpr", "fpr") if statistic.kind == "odds" else (self.name,))
            return low, min(1.0, high)
        if statistic.kind == "worst":
            near, far = self._score_limits(self.name), self._score_limits(self.name, intervals.wilson_corrected)
            return intervals.worst_limits(self.values, near, far, level, high_is_worse=statistic.high_is_worse)
        strata = statistic.strata(self._tally.by_label)
        draws, centre = bootstrap(self._tally, lambda counts: statistic(counts[0]), self._settings, strata)
        low, high = np.clip(intervals.debiased_percentiles(draws, float(centre), value, level), 0.0, 1.0)
        if statistic.kind == "std" and low > 0.0 and self._equal_rows_show(statistic, value):
            low = 0.0
        if statistic.kind == "ratio" and high < 1.0 and self._equal_rows_show(statistic, value):
            high = 1.0
        return float(low), float(high)

    def _disjoint(self, metric: str) -> bool:
        """Whether the rows' rates come from different samples: not for rates of one label against all others."""
        return not (self._counts.by_label and metric in ("fpr", "selection_rate"))

    def _equal_rows_show(self, statistic: Statistic, value: float) -> bool:
        """Whether rows of these sizes with one true rate are as far apart as this, more often than 1 - level.

        No bootstrap knows: what it draws from is as far apart as the rows that were seen.
        """
        if not self._disjoint(self.name) or (self.name == "balanced_accuracy" and not self._counts.by_label):
            return False
        hits, trials = self._counts.proportion(self.name)
        rate = divide(hits.sum(axis=0), trials.sum(axis=0))
        drawn = statistic.of(equal_rows(trials.astype(np.int64), rate, self._settings))
        drawn = drawn[~np.isnan(drawn)]  # no ratio, where nobody was drawn
        if not len(drawn):
            return False
        if statistic.kind == "ratio":
            return value >= float(np.quantile(drawn, 1.0 - self._settings.level))
        return value <= float(np.quantile(drawn, self._settings.level))

    def _gap_limits(self, metrics: tuple[str, ...]) -> tuple[float, float]:
        found = [
            intervals.gap_limits(self._counts.cells(metric), self._score_limits(metric), self._settings.level,
                       disjoint=self._disjoint(metric), families=len(metrics))
            for metric in metrics
        ]  # fmt: skip
        return max(low for low, _ in found), max(high for _, high in found)

    def _score_limits(self, metric: str, interval: Callable[..., tuple[Floats, Floats]] = intervals.wilson) -> Limits:
        if metric == "balanced_accuracy" and not self._counts.by_label:
            return self._balanced_limits
        return partial(interval, *self._counts.proportion(metric))

    def _balanced_limits(self, z: float) -> tuple[Floats, Floats]:
        hits, trials = self._counts.correct, self._counts.samples
        low, high = intervals.mean_limits(divide(hits, trials), *intervals.wilson(hits, trials, z), disjoint=True)
        return low[:, None], high[:, None]


class CustomMetric:
    """A metric that the caller gave, f(labels, predictions) -> float, with bootstrap intervals."""

    def __init__(self, name: str, function: Metric, samples: CodedSamples, settings: Intervals) -> None:
        self.name = name
        self._function, self._settings = function, settings
        row = samples.rows
        order = np.lexsort((samples.labels, row))  # members of a row side by side, and in it those of a label
        values = np.asarray(samples.label_axis.values)
        self._labels, self._predictions = values[samples.labels[order]], values[samples.predictions[order]]
        self._edges = np.searchsorted(row[order], np.arange(len(samples.group_axis) + 1))  # [R + 1]
        cell = row[order] * len(samples.label_axis) + samples.labels[order]
        _, start, inverse, size = np.unique(cell, return_index=True, return_inverse=True, return_counts=True)
        self._cell_start, self._cell_size = start[inverse], size[inverse]  # [N]
        self._all = self._of(self._labels, self._predictions)  # [R + 1], all samples last
        self.row_values = self._all[:-1]  # NaN for a group without samples
        self.values = self.row_values[:, None]
        self.trials = np.diff(self._edges)[:, None]

    def cells(self) -> Estimates:
        value, low, high, n = self.rows()
        return Estimates(value[:, None], low[:, None], high[:, None], n[:, None])

    def rows(self) -> Estimates:
        low, high = intervals.quantile_limits(self._drawn, self._all, self._settings.z)
        return Estimates(self.row_values, low[:-1], high[:-1], self.trials[:, 0])

    def value(self, statistic: Statistic) -> float:
        return float(self._all[-1] if statistic.kind == "overall" else statistic.of(self.values))

    def limits(self, statistic: Statistic) -> tuple[float, float]:
        settings, value = self._settings, self.value(statistic)
        draws = self._drawn[:, :-1, None]  # [D, R, 1]
        if not len(draws) or math.isnan(value):
            return math.nan, math.nan
        if statistic.kind == "overall":
            low, high = intervals.quantile_limits(self._drawn, self._all, settings.z)
            return float(low[-1]), float(high[-1])
        limits: Limits = partial(intervals.quantile_limits, draws, self.values)
        if statistic.kind == "worst":
            return intervals.worst_limits(
                self.values, limits, limits, settings.level, high_is_worse=statistic.high_is_worse
            )
        gap = intervals.gap_limits(self.values, limits, settings.level, disjoint=True)
        if statistic.kind == "gap":
            return gap
        below, above = intervals.debiased_percentiles(statistic.of(draws), value, value, settings.level)
        if gap[0] <= 0.0 and statistic.kind == "std":  # the gap may be 0, and then all rows are equal
            below = 0.0
        if gap[0] <= 0.0 and statistic.kind == "ratio":
            above = max(above, 1.0)
        return below, above

    def draws(self, statistic: Statistic) -> Floats:
        """A number that sums up the metric, under resampling: [D]."""
        return self._drawn[:, -1] if statistic.kind == "overall" else statistic.of(self._drawn[:, :-1, None])

    @cached_property
    def _drawn(self) -> Floats:
        """The metric of resampled samples [D, R + 1]; every label keeps its number in every group."""
        rng = np.random.default_rng(self._settings.seed)
        drawn = np.empty((self._settings.draws, len(self._edges)))
        for draw in range(self._settings.draws):
            rows = self._cell_start + (rng.random(len(self._labels)) * self._cell_size).astype(np.int64)
            drawn[draw] = self._of(self._labels[rows], self._predictions[rows])
        return drawn

    def _of(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> Floats:
        parts = [*map(slice, self._edges[:-1], self._edges[1:]), slice(None)]
        return np.array([self._call(labels[part], predictions[part]) for part in parts])

    def _call(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        if not len(labels):
            return math.nan
        found = self._function(labels, predictions)
        try:
            return float(found)
        except (TypeError, ValueError) as error:
            kind = type(found).__name__
            raise BadInput(f"metric {self.name!r} returned {kind}; return one number per call.") from error
