"""The table by group, and every number that is a view of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from fairweight.errors import BadInput, UnknownName
from fairweight.metrics import _export
from fairweight.metrics._metric import CustomMetric, Metric, RateMetric
from fairweight.metrics._samples import CodedSamples, Names, coded_samples, position
from fairweight.metrics._tally import Tally
from fairweight.metrics.intervals import Estimate, Intervals, NoiseFloor, noise_floor
from fairweight.metrics.rates import BY_CELL, HIGH_IS_WORSE, METRICS, PROPORTIONS, Statistic, divide, statistics

if TYPE_CHECKING:
    import pandas as pd


def group_table(
    labels: object,
    predictions: object,
    groups: object = None,
    *,
    positive: Hashable | None = None,
    missing: Literal["error", "ignore", "group"] = "error",
    label_names: Names | None = None,
    group_names: Names | Mapping[str, Names] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    intervals: Intervals | None = None,
) -> GroupTable:
    """How a classifier does on each group; see fairweight.metrics for what each number means.

    labels, predictions: [N] classes (numbers or text) as tensor, array, list or pandas column.
    groups: [N]; several attributes as a mapping, a data frame or an array [N, A] are crossed; None: the label is
    the group. positive: the label whose rates count (default: 1, or the larger of two labels; with more labels,
    every label counts). missing: what to do with samples whose group is None, NaN or -1. label_names, group_names:
    names in the order of integer codes, or from value to name; a named value that does not occur keeps its row.
    metrics: more metrics by name, each f(labels, predictions) -> float. intervals: how intervals are made.

    Examples:
        >>> import fairweight as fw
        >>> table = fw.group_table(labels=[1, 1, 0, 1, 1, 0], predictions=[1, 1, 0, 1, 0, 1], groups=list("aaabbb"))
        >>> table.tprd, table.max_fnr, round(table.accuracy, 3)
        (0.5, 0.5, 0.667)
        >>> round(table.estimate("tpr", group="b").value, 2)
        0.5
    """
    samples = coded_samples(labels, predictions, groups, positive, missing, label_names, group_names)
    return GroupTable(samples, metrics or {}, intervals or Intervals())


class _MetricsByName(dict[str, "RateMetric | CustomMetric"]):
    def __missing__(self, name: str) -> NoReturn:
        raise UnknownName(f"{name!r} is no metric of this table; choose from: {', '.join(self)}.")


class GroupTable:
    """Rates by group with n and intervals; gaps and worst groups are views of it. Made by group_table."""

    def __init__(self, samples: CodedSamples, metrics: Mapping[str, Metric], intervals: Intervals) -> None:
        self.samples = samples
        self.own_metrics = dict(metrics)
        self.intervals = intervals
        self.tally = Tally.of(samples, samples.predictions)
        counts = self.tally.counts()
        self.numbers = _MetricsByName({name: RateMetric(name, self.tally, counts, intervals) for name in METRICS})
        for name, function in metrics.items():
            if name in statistics() or name in _export.TAKEN:
                raise BadInput(f"{name!r} is a number of every table; give your metric another name.")
            self.numbers[name] = CustomMetric(name, function, samples, intervals)

    @property
    def n(self) -> int:
        """Number of samples, without those left out for a missing group."""
        return len(self.samples.labels)

    @property
    def n_missing(self) -> int:
        """Samples left out because their group is missing."""
        return self.samples.n_missing

    @property
    def by_label(self) -> bool:
        """Whether the label is the group."""
        return self.samples.groups is None

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The rows: names or values of the groups (tuples where attributes are crossed), or of the labels."""
        return tuple(self.samples.group_axis.values())

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Names or values of all labels that occur or were named."""
        return tuple(self.samples.label_axis.values())

    @property
    def targets(self) -> tuple[Hashable, ...]:
        """The labels that rates are taken of: the positive one, or all."""
        labels = self.labels
        return tuple(labels[code] for code in self.tally.targets)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that make up a group."""
        return self.samples.attributes

    @property
    def metrics(self) -> tuple[str, ...]:
        """The columns: the rates, then the caller's own metrics."""
        return (*PROPORTIONS, *self.own_metrics)

    @property
    def has_cells(self) -> bool:
        """Whether there is a rate for every label in every group: more than two labels, and groups beside them."""
        return not self.by_label and len(self.targets) > 1

    @property
    def accuracy(self) -> float:
        """Share of all samples that are predicted right."""
        return self.value("accuracy")

    @property
    def balanced_accuracy(self) -> float:
        """Mean over labels of the share of its samples that are predicted right."""
        return self.value("balanced_accuracy")

    @property
    def worst_group_accuracy(self) -> float:
        """The lowest accuracy of any group."""
        return self.value("worst_group_accuracy")

    @property
    def tprd(self) -> float:
        """True positive rate discrepancy: largest minus smallest TPR over the groups."""
        return self.value("tprd")

    @property
    def max_fnr(self) -> float:
        """The highest false negative rate of any group (and label)."""
        return self.value("max_fnr")

    @property
    def fpr_gap(self) -> float:
        """Largest minus smallest false positive rate over the groups."""
        return self.value("fpr_gap")

    @property
    def equalised_odds_gap(self) -> float:
        """The larger of TPRD and the FPR gap; NaN where either is."""
        return self.value("equalised_odds_gap")

    @property
    def selection_rate_gap(self) -> float:
        """Largest minus smallest share predicted positive over the groups (demographic parity difference)."""
        return self.value("selection_rate_gap")

    def gap(self, metric: str = "tpr") -> float:
        """Largest minus smallest over the groups; NaN where fewer than two can be compared."""
        return self.numbers[metric].value(Statistic("gap", metric))

    def ratio(self, metric: str = "selection_rate") -> float:
        """Smallest over largest over the groups; NaN where fewer than two can be compared or all are 0."""
        return self.numbers[metric].value(Statistic("ratio", metric))

    def worst(self, metric: str = "accuracy") -> float:
        """The worst group's value: the highest of fnr and fpr, the lowest of any other metric."""
        return self.numbers[metric].value(Statistic("worst", metric))

    def std(self, metric: str = "tpr") -> float:
        """Standard deviation over the groups."""
        return self.numbers[metric].value(Statistic("std", metric))

    def worst_tenth(self, metric: str = "tpr") -> float:
        """Mean of the worst tenth of the groups, rounded up: of ten groups, the worst one."""
        return self.numbers[metric].value(Statistic("worst_tenth", metric))

    def worst_group(self, metric: str = "accuracy") -> Any:
        """The worst group, or the worst (label, group); None where nothing could be estimated."""
        values = self.numbers[metric].values  # [R, T]
        if np.isnan(values).all():
            return None
        flat = int(np.nanargmax(values if metric in HIGH_IS_WORSE else -values))
        row, target = divmod(flat, values.shape[1])
        return (self.targets[target], self.groups[row]) if self.has_cells and metric in BY_CELL else self.groups[row]

    def by_group(self, metric: str) -> dict[Hashable, float]:
        """A metric's value for every group; of rates by label and group, the mean over labels."""
        return dict(zip(self.groups, self.numbers[metric].row_values.tolist(), strict=True))

    def by_cell(self, metric: str) -> dict[tuple[Hashable, Hashable], float]:
        """A rate's value for every (label, group)."""
        if metric not in BY_CELL:
            raise UnknownName(f"{metric!r} is no rate by label and group; choose from: {', '.join(BY_CELL)}.")
        return dict(zip(_export.cell_keys(self), self.numbers[metric].values.T.ravel().tolist(), strict=True))

    def value(self, name: str) -> float:
        """A number that sums up the table, by name, such as "tprd" or "accuracy_gap"."""
        statistic = Statistic.named(name, tuple(self.own_metrics))
        return self.numbers[statistic.metric].value(statistic)

    def estimate(self, name: str, group: Hashable = None, label: Hashable = None) -> Estimate:
        """A number with its interval: one that sums up the table or, where a group is named, that group's metric."""
        if group is None:
            if label is not None:
                raise BadInput("a label's rate is taken in a group; name the group too.")
            statistic = Statistic.named(name, tuple(self.own_metrics))
            metric = self.numbers[statistic.metric]
            positives_alone = statistic.metric in ("tpr", "fnr") and statistic.kind != "odds"
            n = int(metric.trials.sum()) if positives_alone else self.n
            return Estimate(metric.value(statistic), *metric.limits(statistic), n)
        row = position(self.samples.group_axis, group, "group")
        if label is None:
            return self.numbers[name].rows[row]
        target = self.labels[position(self.samples.label_axis, label, "label")]
        if name not in BY_CELL or self.by_label or target not in self.targets:
            raise BadInput(f"{name!r} has no value for label {label!r} in group {group!r}; leave label out.")
        return self.numbers[name].cells[self.targets.index(target) * len(self.groups) + row]

    def noise_floor(self) -> NoiseFloor:
        """TPRD, maxFNR and standard deviation of the TPRs that sampling alone would show if all groups were equal."""
        hits, trials = self.tally.counts().proportion("tpr")  # [R, T]
        return noise_floor(trials, divide(hits.sum(axis=0), trials.sum(axis=0)), intervals=self.intervals)

    def to_pandas(self, rows: Literal["group", "cell"] = "group") -> pd.DataFrame:
        """One row per group, or per label and group; every rate has its limits beside it."""
        return _export.to_pandas(self, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: what cannot be estimated is None."""
        return _export.to_dict(self)

    def text(self, width: int | None = None) -> str:
        """The table as text; width: of the terminal, leaving out the last columns that would not fit."""
        return _export.text_of(self, width)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"GroupTable(n={self.n}, groups={len(self.groups)}, accuracy={self.accuracy:.4f}, "
            f"tprd={self.tprd:.4f}, max_fnr={self.max_fnr:.4f})"
        )
