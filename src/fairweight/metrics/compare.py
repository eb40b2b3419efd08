"""Paired comparison of two models on the same samples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairweight.errors import BadInput
from fairweight.metrics._metric import CustomMetric
from fairweight.metrics._samples import CodedSamples
from fairweight.metrics._tally import Tally, bootstrap
from fairweight.metrics.group_table import GroupTable
from fairweight.metrics.intervals import debiased_percentiles
from fairweight.metrics.rates import Statistic


class Difference(NamedTuple):
    """A number of model b minus that of model a, on the same samples, with its interval."""

    metric: str
    a: float
    b: float
    value: float  # b - a
    low: float
    high: float
    n: int

    @property
    def beyond_interval(self) -> bool:
        """Whether 0 lies outside the interval: the difference is larger than resampling explains."""
        return self.low > 0.0 or self.high < 0.0

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"{self.metric}: the difference cannot be estimated on these samples."
        verdict = "larger" if self.beyond_interval else "no larger"
        return (
            f"{self.metric} went from {self.a:.3f} to {self.b:.3f}: {self.value:+.3f} "
            f"[{self.low:+.3f}, {self.high:+.3f}], {verdict} than chance in {self.n} samples explains."
        )


def compare(table_a: GroupTable, table_b: GroupTable, metric: str = "tprd") -> Difference:
    """Table b's number minus table a's; both tables must be of the same samples in the same order.

    Examples:
        >>> import fairweight as fw
        >>> labels, groups = [1, 1, 1, 1, 0] * 10, list("aabba") * 10
        >>> before = fw.group_table(labels, [1, 1, 1, 0, 0] * 10, groups)
        >>> after = fw.group_table(labels, [1, 1, 1, 1, 0] * 10, groups)
        >>> fw.metrics.compare(before, after, "tprd").value
        -0.5
    """
    _check_same_samples(table_a.samples, table_b.samples)
    shared = tuple(name for name in table_a.own_metrics if name in table_b.own_metrics)
    statistic = Statistic.named(metric, shared)
    a, b, settings = table_a.value(metric), table_b.value(metric), table_a.intervals
    if statistic.metric in shared:  # one seed resamples the same samples
        name = statistic.metric
        draws_a, draws_b = (
            CustomMetric(name, table.own_metrics[name], table.samples, settings).draws(statistic)
            for table in (table_a, table_b)
        )
        draws, centre = draws_b - draws_a, b - a
    else:  # a sample's two predictions stay together
        tally = Tally.of(table_a.samples, table_a.samples.predictions, table_b.samples.predictions)
        strata = statistic.strata(table_a.by_label)
        draws, middle = bootstrap(tally, lambda c: statistic(c[1]) - statistic(c[0]), settings, strata)
        centre = float(middle)
    low, high = debiased_percentiles(draws, centre, b - a, settings.level)
    if statistic.metric not in shared:  # shares of samples, which lie no further apart than 1
        low, high = max(low, -1.0), min(high, 1.0)
    return Difference(metric, a, b, b - a, low, high, table_a.n)


def _check_same_samples(a: CodedSamples, b: CodedSamples) -> None:
    def axes(samples: CodedSamples) -> tuple[object, ...]:
        values = list(samples.label_axis.items()), list(samples.group_axis.items())
        return *values, samples.positive, samples.groups is None

    if axes(a) != axes(b) or not np.array_equal(a.labels, b.labels) or not np.array_equal(a.rows, b.rows):
        raise BadInput(
            "the two tables are not of the same samples, labels and groups; give both the same labels and groups "
            "in the same order (and label_names, if one model never predicts some label)."
        )
