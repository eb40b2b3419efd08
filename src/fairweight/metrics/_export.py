"""A table as records, as a data frame, as plain values for JSON and as fairlearn's MetricFrame."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairweight.errors import BadInput, MissingDependency
from fairweight.metrics.rates import BY_CELL, PROPORTIONS, SCALARS

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.metrics.group_table import GroupTable


def group_records(table: GroupTable) -> list[dict[str, float]]:
    """For every group: n, n_positive, and every metric with its limits."""
    n = table.numbers["accuracy"].trials[:, 0]
    columns = {"n": n, "n_positive": n if table.has_cells else table.numbers["tpr"].trials[:, 0]}
    for metric in table.metrics:
        rows = table.numbers[metric].rows()
        columns |= {metric: rows.value, f"{metric}_low": rows.low, f"{metric}_high": rows.high}
    return _records(columns)


def cell_records(table: GroupTable) -> list[dict[str, float]]:
    """For every label in every group, label by label: n, and every rate with its limits."""
    columns = {"n": table.numbers["tpr"].trials}  # [R, T] each
    for metric in BY_CELL:
        cells = table.numbers[metric].cells()
        columns |= {metric: cells.value, f"{metric}_low": cells.low, f"{metric}_high": cells.high}
    return _records({name: values.T.ravel() for name, values in columns.items()})


def _records(columns: dict[str, Any]) -> list[dict[str, float]]:
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def cell_keys(table: GroupTable) -> list[tuple[Hashable, Hashable]]:
    """(label, group) of every cell, label by label."""
    if table.by_label:
        return [(label, label) for label in table.groups]
    return [(label, group) for label in table.targets for group in table.groups]


def name_of(key: Hashable) -> str:
    """The name of a group or label; crossed attributes side by side."""
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _parts(group: Hashable) -> tuple[Hashable, ...]:
    return group if isinstance(group, tuple) else (group,)


def to_pandas(table: GroupTable, rows: Literal["group", "cell"]) -> pd.DataFrame:
    """One row per group, or per label and group."""
    import pandas as pd

    if rows not in ("group", "cell"):
        raise BadInput(f"rows is {rows!r}; choose 'group' or 'cell'.")
    names: list[Hashable] = list(table.attributes)
    keys = [_parts(group) for group in table.groups]
    if rows == "cell" and not table.by_label:
        names = ["label", *names]
        keys = [(label, *_parts(group)) for label, group in cell_keys(table)]
    index: pd.Index[Any] = pd.MultiIndex.from_tuples(keys, names=names)
    if len(names) == 1:
        index = pd.Index(list(table.groups), name=names[0])
    return pd.DataFrame(group_records(table) if rows == "group" else cell_records(table), index=index)


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def to_dict(table: GroupTable) -> dict[str, Any]:
    """Everything the table says, as plain values."""
    level, draws, seed = vars(table.intervals).values()
    estimates = {name: table.estimate(name) for name in (*SCALARS, *table.own_metrics)}
    groups = [
        {"group": name_of(key), "attributes": dict(zip(table.attributes, _parts(key), strict=True)), **record}
        for key, record in zip(table.groups, group_records(table), strict=True)
    ]
    content: dict[str, Any] = {
        "n": table.n,
        "n_missing": table.n_missing,
        **{name: _plain(estimate.value) for name, estimate in estimates.items()},
        "intervals": {name: [_plain(estimate.low), _plain(estimate.high)] for name, estimate in estimates.items()},
        "interval": {"level": level, "method": "score", "draws": draws, "seed": seed},
        "by": "label" if table.by_label else list(table.attributes),
        "labels": [_plain(label) for label in table.labels],
        "positive": None if table.samples.positive is None else _plain(table.targets[0]),
        "groups": [_plain(group) for group in groups],
        "noise_floor": {
            name: _plain({"mean": estimate.value, "low": estimate.low, "high": estimate.high})
            for name, estimate in table.noise_floor()._asdict().items()
        },
    }
    if table.has_cells:
        content["cells"] = [
            _plain({"label": name_of(label), "group": name_of(group), **record})
            for (label, group), record in zip(cell_keys(table), cell_records(table), strict=True)
        ]
    return content


def to_metric_frame(table: GroupTable) -> Any:
    """The table's samples in fairlearn's MetricFrame, which has no place for rates by label and group."""
    try:
        from fairlearn.metrics import MetricFrame, count
    except ImportError as error:
        raise MissingDependency("to_metric_frame needs fairlearn; install fairweight[fairlearn].") from error
    import pandas as pd

    samples = table.samples
    values = np.asarray(samples.label_axis.values)
    built_in = ("accuracy",) if samples.positive is None else PROPORTIONS
    keys = [_parts(key) for key in table.groups]
    return MetricFrame(
        metrics={"count": count, **{name: _as_function(table, name) for name in built_in}, **table.own_metrics},
        y_true=values[samples.labels],
        y_pred=values[samples.predictions],
        sensitive_features=pd.DataFrame([keys[code] for code in samples.rows], columns=list(table.attributes)),
    )


def _as_function(table: GroupTable, metric: str) -> Callable[[object, object], float]:
    """A built-in metric as f(labels, predictions); NaN, where fairlearn's own say 0, if no sample counts."""
    from fairweight.metrics.group_table import group_table

    values, positive = table.samples.label_axis.values, table.samples.positive

    def value(labels: object, predictions: object) -> float:
        one_group = [0] * len(np.asarray(labels))
        target, names = None if positive is None else values[positive], {v: str(v) for v in values}
        return group_table(labels, predictions, one_group, positive=target, label_names=names).value(metric)

    return value
