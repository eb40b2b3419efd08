"""Every number of one table, as arrays by row (group) and target (label)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fairweight.errors import BadInput, UnknownName
from fairweight.metrics._columns import Ints
from fairweight.metrics._intervals import IntervalMaker, drawn_statistic_limits
from fairweight.metrics._limits import quantile_limits
from fairweight.metrics._own_metric import Metric, OwnMetric
from fairweight.metrics._rates import METRICS, PROPORTIONS, View, divide
from fairweight.metrics._samples import CodedSamples
from fairweight.metrics._statistic import Statistic
from fairweight.metrics._tally import Floats, Tally
from fairweight.metrics.estimate import Estimate, Intervals
from fairweight.metrics.sampling_floor import NoiseFloor, noise_floor


class Numbers:
    """Metrics of one set of samples; built-in ones from counts, the caller's own from the samples themselves."""

    def __init__(self, samples: CodedSamples, metrics: Mapping[str, Metric], intervals: Intervals) -> None:
        for name in metrics:
            if Statistic.is_named(name):
                raise BadInput(f"{name!r} is a number of every table; give your metric another name.")
        labels = len(samples.label_axis)
        by_label = samples.groups is None
        targets = np.arange(labels) if samples.positive is None else np.array([samples.positive])
        self.view = View(by_label, targets)
        self.tally = Tally.of(
            samples.groups,
            samples.labels,
            (samples.predictions,),
            (1 if by_label else len(samples.group_axis), labels),
        )
        self.counts = self.tally.counts()
        self.n = len(samples.labels)
        self.intervals = intervals
        self.own = tuple(metrics)
        self._maker = IntervalMaker(self.tally, self.counts, self.view, intervals)
        self._own = {name: OwnMetric(name, function, samples) for name, function in metrics.items()}
        self._own_values = {name: own.values() for name, own in self._own.items()}  # [R + 1] each, all samples last
        self._own_draws: dict[str, Floats] = {}  # [D, R + 1] each, once asked for

    def known(self, metric: str) -> str:
        """The metric's name, if there is such a metric."""
        if metric not in METRICS and metric not in self.own:
            raise UnknownName(
                f"{metric!r} is no metric of this table; choose from: {', '.join((*METRICS, *self.own))}."
            )
        return metric

    def cells(self, metric: str) -> Floats:
        """By row and target [R, T]; T is 1 for what is not taken label by label."""
        if self.known(metric) in self._own:
            return self._own_values[metric][:-1, None]
        return self.view.cells(metric, self.counts)

    def rows(self, metric: str) -> Floats:
        """By row [R]."""
        return self.cells(metric)[:, 0] if self.known(metric) in self._own else self.view.rows(metric, self.counts)

    def cell_limits(self, metric: str) -> tuple[Floats, Floats]:
        """Limits by row and target [R, T]."""
        if self.known(metric) not in self._own:
            return self._maker.cells(metric)
        low, high = self.row_limits(metric)
        return low[:, None], high[:, None]

    def row_limits(self, metric: str) -> tuple[Floats, Floats]:
        """Limits by row [R]."""
        if self.known(metric) not in self._own:
            return self._maker.rows(metric)
        low, high = self._own_limits(metric)
        return low[:-1], high[:-1]

    def cell_trials(self, metric: str) -> Ints:
        """Samples behind each rate [R, T]."""
        proportion = metric if metric in PROPORTIONS else "accuracy"
        return self.view.proportion(proportion, self.counts)[1].astype(np.int64)

    def row_trials(self, metric: str) -> Ints:
        """Samples behind each row's value [R]."""
        trials = self.cell_trials(metric)
        return trials[:, 0] if trials.shape[1] == 1 else self.cell_trials("accuracy")[:, 0]

    def value(self, name: str) -> float:
        """A number that sums up the table."""
        statistic = Statistic.named(name, self.own)
        if statistic.metric not in self._own:
            return float(statistic(self.counts, self.view))
        if statistic.kind == "overall":
            return float(self._own_values[statistic.metric][-1])
        return float(statistic.of(self.cells(statistic.metric)))

    def estimate(self, name: str) -> Estimate:
        """A number that sums up the table, with its interval."""
        statistic = Statistic.named(name, self.own)
        value = self.value(name)
        if statistic.metric not in self._own:
            low, high = self._maker.statistic(statistic, value)
        elif statistic.kind == "overall":
            low, high = (float(limit[-1]) for limit in self._own_limits(statistic.metric))
        else:
            draws, values = self._drawn(statistic.metric)[:, :-1], self._own_values[statistic.metric][:-1]
            low, high = drawn_statistic_limits(statistic, draws, values, self.intervals)
        counted = statistic.metric in ("tpr", "fnr") and statistic.kind != "odds"
        return Estimate(value, low, high, int(self.cell_trials("tpr").sum()) if counted else self.n)

    def row_estimate(self, metric: str, row: int, target: int | None) -> Estimate:
        """One row's metric with its interval; of one target, or of all."""
        self.known(metric)
        if target is None:
            value, (low, high), n = self.rows(metric), self.row_limits(metric), self.row_trials(metric)
            return Estimate(float(value[row]), float(low[row]), float(high[row]), int(n[row]))
        cells, (low, high), n = self.cells(metric), self.cell_limits(metric), self.cell_trials(metric)
        at = (row, target)
        return Estimate(float(cells[at]), float(low[at]), float(high[at]), int(n[at]))

    def floor(self) -> NoiseFloor:
        """What the TPRs of truly equal rows would show."""
        hits, trials = self.view.proportion("tpr", self.counts)  # [R, T]
        return noise_floor(trials, divide(hits.sum(axis=0), trials.sum(axis=0)), intervals=self.intervals)

    def worst_cell(self, metric: str) -> tuple[int, int] | None:
        """Row and target of the worst value."""
        cells = self.cells(metric)
        if np.isnan(cells).all():
            return None
        flat = int(np.nanargmax(cells if Statistic("worst", metric).high_is_worse else -cells))
        row, target = divmod(flat, cells.shape[1])
        return row, target

    def own_draws(self, statistic: Statistic, settings: Intervals) -> Floats:
        """A number of one of the caller's own metrics, under resampling with these settings: [D]."""
        drawn = self._own[statistic.metric].draws(settings.draws, settings.seed)
        return drawn[:, -1] if statistic.kind == "overall" else statistic.of(drawn[:, :-1, None])

    def _drawn(self, metric: str) -> Floats:
        if metric not in self._own_draws:
            self._own_draws[metric] = self._own[metric].draws(self.intervals.draws, self.intervals.seed)
        return self._own_draws[metric]

    def _own_limits(self, metric: str) -> tuple[Floats, Floats]:
        values, draws = self._own_values[metric], self._drawn(metric)
        if not len(draws):
            return np.full(len(values), math.nan), np.full(len(values), math.nan)
        return quantile_limits(draws, values, self.intervals.z)
