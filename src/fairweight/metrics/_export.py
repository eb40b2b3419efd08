"""A table as records, as a data frame, as plain values for JSON, and as fairlearn's MetricFrame."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput, MissingDependency
from fairweight.metrics._rates import BY_CELL
from fairweight.metrics._statistic import SCALARS
from fairweight.metrics.estimate import Estimate

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.metrics.table import GroupTable


def group_records(table: GroupTable) -> list[dict[str, float]]:
    """For every group: n, n_positive, and every metric with its limits."""
    numbers = table.numbers
    n = numbers.cell_trials("accuracy")[:, 0]
    columns: dict[str, list[float]] = {
        "n": n.tolist(),
        "n_positive": (n if table.has_cells else numbers.cell_trials("tpr")[:, 0]).tolist(),
    }
    for metric in table.metrics:
        low, high = numbers.row_limits(metric)
        columns |= {
            metric: numbers.rows(metric).tolist(),
            f"{metric}_low": low.tolist(),
            f"{metric}_high": high.tolist(),
        }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def cell_records(table: GroupTable) -> list[dict[str, float]]:
    """For every label in every group, label by label: n, and every rate with its limits."""
    numbers = table.numbers
    columns: dict[str, list[Any]] = {"n": numbers.cell_trials("tpr").T.ravel().tolist()}  # [T * R]
    for metric in BY_CELL:
        low, high = numbers.cell_limits(metric)
        for ending, values in (("", numbers.cells(metric)), ("_low", low), ("_high", high)):
            columns[f"{metric}{ending}"] = values.T.ravel().tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def cell_keys(table: GroupTable) -> list[tuple[Hashable, Hashable]]:
    """(label, group) of every cell record."""
    if table.by_label:
        return [(label, label) for label in table.groups]
    return [(label, group) for label in table.targets for group in table.groups]


def name_of(key: Hashable) -> str:
    """A group or label in words; crossed attributes side by side."""
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def to_pandas(table: GroupTable, rows: Literal["group", "cell"]) -> pd.DataFrame:
    """One row per group, or per label and group."""
    import pandas as pd

    if rows not in ("group", "cell"):
        raise BadInput(f"rows is {rows!r}; choose 'group' or 'cell'.")
    crossed = len(table.attributes) > 1
    index: pd.Index[Any]
    if rows == "group":
        if crossed:
            index = pd.MultiIndex.from_tuples(list(table.groups), names=list(table.attributes))  # type: ignore[arg-type]
        else:
            index = pd.Index(list(table.groups), name=table.attributes[0])
        return pd.DataFrame(group_records(table), index=index)
    if table.by_label:
        index = pd.Index(list(table.groups), name="label")
    else:
        keys = [(label, *(group if isinstance(group, tuple) else (group,))) for label, group in cell_keys(table)]
        index = pd.MultiIndex.from_tuples(keys, names=["label", *table.attributes])
    return pd.DataFrame(cell_records(table), index=index)


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def to_dict(table: GroupTable) -> dict[str, Any]:
    """Everything the table says, as plain values."""
    names = (*SCALARS, *table.own_metrics)
    estimates = {name: table.estimate(name) for name in names}
    settings = table.intervals
    groups = []
    for key, record in zip(table.groups, group_records(table), strict=True):
        parts = key if isinstance(key, tuple) else (key,)
        attributes = dict(zip(table.attributes, parts, strict=True))
        groups.append(_plain({"group": name_of(key), "attributes": attributes, **record}))
    content: dict[str, Any] = {
        "n": table.n,
        "n_missing": table.n_missing,
        **{name: _plain(estimate.value) for name, estimate in estimates.items()},
        "intervals": {name: [_plain(estimate.low), _plain(estimate.high)] for name, estimate in estimates.items()},
        "interval": {
            "level": settings.level,
            "method": settings.method,
            "draws": settings.draws,
            "seed": settings.seed,
        },
        "by": "label" if table.by_label else list(table.attributes),
        "labels": [_plain(label) for label in table.labels],
        "positive": None if table.samples.positive is None else _plain(table.targets[0]),
        "groups": groups,
        "noise_floor": {
            name: _plain(dict(_fields(estimate))) for name, estimate in table.noise_floor()._asdict().items()
        },
    }
    if table.has_cells:
        content["cells"] = [
            _plain({"label": name_of(label), "group": name_of(group), **record})
            for (label, group), record in zip(cell_keys(table), cell_records(table), strict=True)
        ]
    return content


def _fields(estimate: Estimate) -> dict[str, float]:
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high}


def to_metric_frame(table: GroupTable) -> Any:
    """The table's samples in fairlearn's MetricFrame, which has no place for rates by label and group."""
    try:
        from fairlearn.metrics import MetricFrame, count
    except ImportError as error:
        raise MissingDependency("to_metric_frame needs fairlearn; install fairweight[fairlearn].") from error
    import pandas as pd

    samples = table.samples
    values = samples.label_values()
    metrics: dict[str, Callable[..., float]] = {"count": count, "accuracy": _accuracy}
    if samples.positive is not None:
        metrics |= _binary_metrics(values[samples.positive])
    codes = samples.labels if samples.groups is None else samples.groups
    keys = [key if isinstance(key, tuple) else (key,) for key in table.groups]
    features = pd.DataFrame([keys[code] for code in codes], columns=list(table.attributes))
    return MetricFrame(
        metrics=metrics | table.own_metrics,
        y_true=values[samples.labels],
        y_pred=values[samples.predictions],
        sensitive_features=features,
    )


Column = npt.NDArray[Any]


def _share(hit: Column, among: Column) -> float:
    return float(hit[among].mean()) if among.any() else math.nan


def _accuracy(labels: Column, predictions: Column) -> float:
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


def _binary_metrics(positive: Any) -> dict[str, Callable[[Column, Column], float]]:
    """The rates of one label, as functions that give NaN, not 0, where there is nobody to count."""

    def asked(labels: Column, predictions: Column) -> tuple[Column, Column]:
        return np.asarray(labels) == positive, np.asarray(predictions) == positive

    def tpr(labels: Column, predictions: Column) -> float:
        truth, said = asked(labels, predictions)
        return _share(said, truth)

    def fnr(labels: Column, predictions: Column) -> float:
        truth, said = asked(labels, predictions)
        return _share(~said, truth)

    def fpr(labels: Column, predictions: Column) -> float:
        truth, said = asked(labels, predictions)
        return _share(said, ~truth)

    def selection_rate(labels: Column, predictions: Column) -> float:
        return float(np.mean(asked(labels, predictions)[1]))

    return {"tpr": tpr, "fnr": fnr, "fpr": fpr, "selection_rate": selection_rate}
