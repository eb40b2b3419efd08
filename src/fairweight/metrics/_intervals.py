"""Which interval belongs to which number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fairweight.metrics._limits import (
    Limits,
    debiased_percentiles,
    gap_limits,
    mean_limits,
    percentiles,
    quantile_limits,
    wilson,
    wilson_corrected,
    worst_limits,
)
from fairweight.metrics._rates import View, divide, mean
from fairweight.metrics._statistic import Statistic
from fairweight.metrics._tally import Amounts, Counts, Floats, Tally, bootstrap
from fairweight.metrics.estimate import Intervals


@dataclass(frozen=True)
class IntervalMaker:
    """Intervals of the rates in one table and of the numbers that sum them up."""

    tally: Tally
    counts: Counts
    view: View
    settings: Intervals
    _draws: dict[tuple[str, str], Floats] = field(default_factory=dict)  # resampled cells, by metric and strata

    @property
    def _tail(self) -> float:
        return (1.0 - self.settings.level) / 2.0

    def _disjoint(self, metric: str) -> bool:
        """Whether the rows' rates come from different samples: not for rates of one label against all others."""
        return not (self.view.by_label and metric in ("fpr", "selection_rate"))

    def cells(self, metric: str) -> tuple[Floats, Floats]:
        """Limits of a metric by row and target [R, T]."""
        if self.settings.method == "bootstrap":
            return percentiles(self._drawn_cells(metric), self._tail)
        return self._score_limits(metric)(self.settings.z)

    def rows(self, metric: str) -> tuple[Floats, Floats]:
        """Limits of a metric by row [R]."""
        cells = self.view.cells(metric, self.counts)
        if cells.shape[1] > 1 and metric == "selection_rate":  # no such number: see View.rows
            return np.full(len(cells), np.nan), np.full(len(cells), np.nan)
        if self.settings.method == "bootstrap":
            return percentiles(mean(self._drawn_cells(metric), axis=-1), self._tail)
        return mean_limits(cells, *self.cells(metric), disjoint=metric != "fpr")

    def statistic(self, statistic: Statistic, value: float) -> tuple[float, float]:
        """Limits of a number that sums up the table."""
        if math.isnan(value):
            return math.nan, math.nan
        if self.settings.method == "bootstrap":
            below, above = percentiles(self._drawn(statistic, smooth=False)[0], self._tail)
            return float(below), float(above)
        if statistic.kind == "overall":
            pooled = View(by_label=False, targets=self.view.targets)
            maker = IntervalMaker(self.tally, self.counts.pooled(), pooled, self.settings)
            lows, highs = maker.rows(statistic.metric)
            return float(lows[0]), float(highs[0])
        if statistic.kind in ("gap", "odds"):
            low, high = self._gap(statistic)
            return low, min(1.0, high)
        cells = self.view.cells(statistic.metric, self.counts)
        limits = self._score_limits(statistic.metric)
        if statistic.kind == "worst":
            far = self._score_limits(statistic.metric, wilson_corrected)
            return worst_limits(cells, limits, far, self.settings.level, high_is_worse=statistic.high_is_worse)
        draws, centre = self._drawn(statistic, smooth=True)
        low, high = np.clip(debiased_percentiles(draws, float(centre), value, self._tail), 0.0, 1.0)
        if statistic.kind == "std" and low > 0.0 and self._equal_rows_show(statistic, value):
            low = 0.0
        if statistic.kind == "ratio" and high < 1.0 and self._equal_rows_show(statistic, value):
            high = 1.0
        return float(low), float(high)

    def _equal_rows_show(self, statistic: Statistic, value: float) -> bool:
        """Whether rows of these sizes with one true rate are as far apart as this, more often than 1 - level.

        No bootstrap knows: what it draws from is as far apart as the rows that were seen.
        """
        own_rates = self._disjoint(statistic.metric) and (statistic.metric != "balanced_accuracy" or self.view.by_label)
        if not own_rates:
            return False
        metric = "tpr" if statistic.metric == "balanced_accuracy" else statistic.metric
        drawn = statistic.of(equal_rows(*self.view.proportion(metric, self.counts), self.settings))
        drawn = drawn[~np.isnan(drawn)]  # no ratio, where nobody was drawn
        if not len(drawn):
            return False
        if statistic.kind == "ratio":
            return value >= float(np.quantile(drawn, 1.0 - self.settings.level))
        return value <= float(np.quantile(drawn, self.settings.level))

    def _gap(self, statistic: Statistic) -> tuple[float, float]:
        metrics = ("tpr", "fpr") if statistic.kind == "odds" else (statistic.metric,)
        found = [
            gap_limits(
                self.view.cells(metric, self.counts),
                self._score_limits(metric),
                self.settings.level,
                disjoint=self._disjoint(metric),
                families=len(metrics),
            )
            for metric in metrics
        ]
        return max(low for low, _ in found), max(high for _, high in found)

    def _score_limits(self, metric: str, interval: Callable[..., tuple[Floats, Floats]] = wilson) -> Limits:
        if metric == "balanced_accuracy" and not self.view.by_label:
            return self._balanced_limits
        return partial(interval, *self.view.proportion("tpr" if metric == "balanced_accuracy" else metric, self.counts))

    def _balanced_limits(self, z: float) -> tuple[Floats, Floats]:
        every = View(by_label=False, targets=np.arange(self.counts.samples.shape[-1]))
        recall = every.cells("tpr", self.counts)
        low, high = mean_limits(recall, *wilson(*every.proportion("tpr", self.counts), z), disjoint=True)
        return low[:, None], high[:, None]

    def _drawn(self, statistic: Statistic, *, smooth: bool) -> tuple[Floats, Floats]:
        return bootstrap(
            self.tally,
            lambda counts: statistic(counts[0], self.view),
            draws=self.settings.draws,
            seed=self.settings.seed,
            strata=statistic.strata(self.view),
            smooth=smooth,
        )

    def _drawn_cells(self, metric: str) -> Floats:
        strata = Statistic("gap", metric).strata(self.view)
        if (metric, strata) not in self._draws:
            self._draws[metric, strata] = bootstrap(
                self.tally,
                lambda counts: self.view.cells(metric, counts[0]),
                draws=self.settings.draws,
                seed=self.settings.seed,
                strata=strata,
                smooth=False,
            )[0]
        return self._draws[metric, strata]


def equal_rows(hits: Amounts, trials: Amounts, settings: Intervals) -> Floats:
    """Rates [D, R, T] drawn for rows of these sizes [R, T] whose true rates are all that of them together."""
    rate = divide(hits.sum(axis=0), trials.sum(axis=0))  # [T], NaN where nobody is
    sizes = trials.astype(np.int64)
    shape = (settings.draws, *sizes.shape)
    drawn = np.random.default_rng(settings.seed).binomial(sizes, np.nan_to_num(rate), size=shape)
    return divide(drawn, np.broadcast_to(sizes, shape))


def drawn_statistic_limits(
    statistic: Statistic, draws: Floats, values: Floats, settings: Intervals
) -> tuple[float, float]:
    """Limits of a gap or a worst value of a metric known by its bootstrap draws [D, R] alone."""
    cells = values[:, None]  # [R, 1]
    limits: Limits = partial(quantile_limits, draws[..., None], cells)
    value = float(statistic.of(cells))
    if not len(draws) or math.isnan(value):
        return math.nan, math.nan
    if settings.method == "score" and statistic.kind == "gap":
        return gap_limits(cells, limits, settings.level, disjoint=True)
    if settings.method == "score" and statistic.kind == "worst":
        return worst_limits(cells, limits, limits, settings.level, high_is_worse=statistic.high_is_worse)
    drawn = statistic.of(draws[..., None])  # [D]
    tail = (1.0 - settings.level) / 2.0
    if settings.method != "score":
        below, above = percentiles(drawn, tail)
        return float(below), float(above)
    low, high = debiased_percentiles(drawn, value, value, tail)
    if statistic.kind in ("std", "ratio") and gap_limits(cells, limits, settings.level, disjoint=True)[0] <= 0.0:
        # the gap may be 0, and then all rows are equal
        return (0.0, high) if statistic.kind == "std" else (low, max(high, 1.0))
    return low, high
