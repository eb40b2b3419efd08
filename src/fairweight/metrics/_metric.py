"""One metric by row (group) and target (label), with intervals: a rate of counts, or a function of the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics import intervals
from fairweight.metrics._samples import CodedSamples, Ints
from fairweight.metrics._tally import StratifiedDraw, Tally, bootstrap
from fairweight.metrics.intervals import Estimate, Intervals, equal_rows
from fairweight.metrics.rates import Counts, Floats, Statistic, divide

Metric: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]
Score: TypeAlias = Callable[..., tuple[Floats, Floats]]  # limits of a proportion: of hits, trials and z
_UNKNOWN = (math.nan, math.nan)


def _estimates(value: Floats, low: Floats, high: Floats, n: Ints) -> list[Estimate]:
    columns = (column.T.ravel().tolist() for column in (value, low, high, n))
    return [Estimate(*row) for row in zip(*columns, strict=True)]


class RateMetric:
    """A built-in metric, from counts."""

    def __init__(self, name: str, tally: Tally, counts: Counts, settings: Intervals) -> None:
        self.name = name
        self._tally, self._counts, self._settings = tally, counts, settings
        self._balanced = name == "balanced_accuracy" and not counts.by_label  # the mean of several rates
        # Whether the rows' rates come from different samples: not for rates of one label against all others.
        self._disjoint = not (counts.by_label and name in ("fpr", "selection_rate"))
        self._proportion = counts.proportion(name)
        self.values = counts.cells(name)  # [R, T]; T is 1 for what is not taken label by label
        self.trials = self._group_sizes if self._balanced else self._proportion[1].astype(np.int64)  # [R, T]

    @property
    def row_values(self) -> Floats:
        return self._counts.rows(self.name)  # [R]

    @property
    def _group_sizes(self) -> Ints:
        return self._counts.proportion("accuracy")[1].astype(np.int64)  # [R, 1]

    @cached_property
    def cells(self) -> list[Estimate]:
        """By target, then row."""
        return _estimates(self.values, *self._rate_limits(self._settings.z), self.trials)

    @cached_property
    def rows(self) -> list[Estimate]:
        several, value = self.values.shape[1] > 1, self.row_values
        if several and self.name == "selection_rate":  # no such number: see Counts.rows
            low = high = value
        else:
            limits = self._rate_limits(self._settings.z)
            low, high = intervals.mean_limits(self.values, *limits, disjoint=self.name != "fpr")
        return _estimates(value, low, high, (self._group_sizes if several else self.trials)[:, 0])

    def value(self, statistic: Statistic) -> float:
        return float(statistic(self._counts))

    def limits(self, statistic: Statistic) -> tuple[float, float]:
        level, value = self._settings.level, self.value(statistic)
        if math.isnan(value):
            return _UNKNOWN
        if statistic.kind == "overall":
            [pooled] = RateMetric(self.name, self._tally, self._counts.pooled(), self._settings).rows
            return pooled.low, pooled.high
        if statistic.kind == "gap":
            return self._gap_limits()
        if statistic.kind == "odds":
            both = [RateMetric(name, self._tally, self._counts, self._settings) for name in ("tpr", "fpr")]
            (low, high), (other_low, other_high) = (rate._gap_limits(families=2) for rate in both)
            return max(low, other_low), max(high, other_high)
        if statistic.kind == "worst":
            far = partial(self._rate_limits, interval=intervals.wilson_corrected)
            return intervals.worst_limits(
                self.values, self._rate_limits, far, level, high_is_worse=statistic.high_is_worse
            )
        strata = statistic.strata(self._tally.by_label)
        draws, centre = bootstrap(self._tally, lambda counts: statistic(counts[0]), self._settings, strata)
        low, high = np.clip(intervals.debiased_percentiles(draws, float(centre), value, level), 0.0, 1.0).tolist()
        if statistic.kind == "std" and low > 0.0 and self._explained_by_chance(statistic, value):
            low = 0.0
        if statistic.kind == "ratio" and high < 1.0 and self._explained_by_chance(statistic, value):
            high = 1.0
        return low, high

    def _gap_limits(self, families: int = 1) -> tuple[float, float]:
        level = self._settings.level
        low, high = intervals.gap_limits(
            self.values, self._rate_limits, level, disjoint=self._disjoint, families=families
        )
        return low, min(1.0, high)

    def _explained_by_chance(self, statistic: Statistic, value: float) -> bool:
        """True if rows of these sizes with one true rate are as far apart as this, more often than 1 - level.

        No bootstrap knows: what it draws from is as far apart as the rows that were seen.
        """
        if not self._disjoint or self._balanced:
            return False
        hits, trials = self._proportion
        rate = divide(hits.sum(axis=0), trials.sum(axis=0))
        drawn = statistic.of(equal_rows(trials.astype(np.int64), rate, self._settings))
        drawn = drawn[~np.isnan(drawn)]  # no ratio where a row drew no sample
        if not len(drawn):
            return False
        if statistic.kind == "ratio":
            return value >= float(np.quantile(drawn, 1.0 - self._settings.level))
        return value <= float(np.quantile(drawn, self._settings.level))

    def _rate_limits(self, z: float, interval: Score = intervals.wilson) -> tuple[Floats, Floats]:
        if not self._balanced:
            return interval(*self._proportion, z)
        hits, trials = self._counts.correct, self._counts.samples
        low, high = intervals.mean_limits(divide(hits, trials), *intervals.wilson(hits, trials, z), disjoint=True)
        return low[:, None], high[:, None]


class CustomMetric:
    """A metric that the caller gave, f(labels, predictions) -> float, with bootstrap intervals."""

    def __init__(self, name: str, function: Metric, samples: CodedSamples, settings: Intervals) -> None:
        self.name = name
        self._function, self._settings = function, settings
        # Members of a row lie side by side, and in it those of a label, which keeps its number when drawn again.
        self._cells = StratifiedDraw(samples.rows * len(samples.label_axis) + samples.labels)
        order, values = self._cells.order, np.asarray(list(samples.label_axis))
        self._labels, self._predictions = values[samples.labels[order]], values[samples.predictions[order]]
        self._edges = np.searchsorted(samples.rows[order], np.arange(len(samples.group_axis) + 1))  # [R + 1]
        self._with_overall = self._by_row(self._labels, self._predictions)  # [R + 1], all samples last
        self.row_values = self._with_overall[:-1]  # NaN for a group without samples
        self.values = self.row_values[:, None]
        self.trials = np.diff(self._edges)[:, None]

    @cached_property
    def rows(self) -> list[Estimate]:
        return _estimates(self.values, *self._rate_limits(self._settings.z), self.trials)

    @property
    def cells(self) -> list[Estimate]:
        return self.rows

    def value(self, statistic: Statistic) -> float:
        return float(self._with_overall[-1] if statistic.kind == "overall" else statistic.of(self.values))

    def limits(self, statistic: Statistic) -> tuple[float, float]:
        level, value = self._settings.level, self.value(statistic)
        if not self._settings.draws or math.isnan(value):
            return _UNKNOWN
        if statistic.kind == "overall":
            overall = intervals.quantile_limits(self._resampled[:, -1], self._with_overall[-1], self._settings.z)
            return float(overall[0]), float(overall[1])
        if statistic.kind == "worst":
            return intervals.worst_limits(
                self.values, self._rate_limits, self._rate_limits, level, high_is_worse=statistic.high_is_worse
            )
        gap = intervals.gap_limits(self.values, self._rate_limits, level, disjoint=True)
        if statistic.kind == "gap":
            return gap
        low, high = intervals.debiased_percentiles(self.draws(statistic), value, value, level)
        if gap[0] <= 0.0 and statistic.kind == "std":  # the gap may be 0, and then all rows are equal
            low = 0.0
        if gap[0] <= 0.0 and statistic.kind == "ratio":
            high = max(high, 1.0)
        return low, high

    def draws(self, statistic: Statistic) -> Floats:
        """A number that sums up the metric, under resampling: [D]."""
        return self._resampled[:, -1] if statistic.kind == "overall" else statistic.of(self._resampled[:, :-1, None])

    def _rate_limits(self, z: float) -> tuple[Floats, Floats]:
        return intervals.quantile_limits(self._resampled[:, :-1, None], self.values, z)

    @cached_property
    def _resampled(self) -> Floats:
        rng = np.random.default_rng(self._settings.seed)
        drawn = np.empty((self._settings.draws, len(self._edges)))
        for draw in drawn:
            rows = self._cells.drawn(rng)
            draw[:] = self._by_row(self._labels[rows], self._predictions[rows])
        return drawn

    def _by_row(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> Floats:
        parts = [*map(slice, self._edges[:-1], self._edges[1:]), slice(None)]
        return np.array([self._call(labels[part], predictions[part]) for part in parts])

    def _call(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        if not len(labels):
            return math.nan
        result = self._function(labels, predictions)
        try:
            return float(result)
        except (TypeError, ValueError) as error:
            kind = type(result).__name__
            raise BadInput(f"metric {self.name!r} returned {kind}; return one number per call.") from error
