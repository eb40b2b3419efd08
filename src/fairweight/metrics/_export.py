"""A table as records, as a data frame, as plain values for JSON, as fairlearn's MetricFrame, and as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairweight.errors import BadInput, MissingDependency
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import BY_CELL, PROPORTIONS, SCALARS

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.metrics.group_table import GroupTable

MOST_ROWS = 30  # of more, the worst are shown
_WIDEST = 32  # characters of a name
_TITLES = {"n_positive": "positives", "tpr": "TPR", "fnr": "FNR", "fpr": "FPR", "selection_rate": "selected"}


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


def text_of(table: GroupTable, width: int | None = None) -> str:
    """Rows by group, the numbers that sum them up, the sampling floor, and what was left out.

    width: of a terminal; the last columns of rates that would not fit are left out, down to one, and named.
    """
    title = ", ".join(table.attributes)
    shown = [metric for metric in table.metrics if metric not in _hidden(table)]
    fixed = ["n"] if table.by_label or table.has_cells else ["n", "n_positive"]
    titles = _TITLES | ({"tpr": "mean TPR"} if table.has_cells else {})
    records = group_records(table)
    lost: list[str] = []
    while True:
        text = _rows(title, list(table.groups), records, [*fixed, *shown], titles, worst_by="accuracy")
        if width is None or len(shown) < 2 or max(map(_width, text.split("\n"))) <= width:
            break
        lost.insert(0, shown.pop())
    parts = [text]
    if table.has_cells:
        keys: list[Hashable] = [(name_of(label), name_of(group)) for label, group in cell_keys(table)]
        columns = ["n", "tpr", "fpr", "selection_rate"]
        parts.append(_rows(f"label, {title}", keys, cell_records(table), columns, _TITLES, worst_by="tpr"))
    summary = SCALARS | {name: _shortened(name) for name in table.own_metrics}
    parts.append(_aligned([[words, str(table.estimate(name))] for name, words in summary.items()]))
    narrow = (
        [f"Left out, as the terminal is too narrow: {', '.join(titles.get(name, name) for name in lost)}."]
        if lost
        else []
    )
    return "\n\n".join([*parts, "\n".join([*_notes(table), *narrow])])


def _hidden(table: GroupTable) -> tuple[str, ...]:
    """Columns that say nothing new: fnr is 1 - tpr; by label, accuracy is tpr; means over labels are in the cells."""
    if table.by_label:
        return ("fnr", "accuracy")
    return ("fnr", "fpr", "selection_rate") if table.has_cells else ("fnr",)


def _rows(
    title: str,
    keys: list[Hashable],
    records: list[dict[str, float]],
    columns: list[str],
    titles: dict[str, str],
    worst_by: str,
) -> str:
    order = list(range(len(keys)))
    if len(keys) > MOST_ROWS:
        order = np.argsort([record[worst_by] for record in records], kind="stable")[:MOST_ROWS].tolist()  # NaNs last
    lines = [[_shortened(title), *(titles.get(column, _shortened(column)) for column in columns)]]
    for place in order:
        lines.append([_shortened(name_of(keys[place])), *(_cell(records[place], column) for column in columns)])
    rest = f"\nThe {len(order)} worst of {len(keys)}; the run's metrics.json and, in Python, to_pandas() have all."
    return _aligned(lines) + (rest if len(order) < len(keys) else "")


def _cell(record: dict[str, float], column: str) -> str:
    if f"{column}_low" not in record:
        return str(int(record[column]))
    return str(Estimate(record[column], record[f"{column}_low"], record[f"{column}_high"], int(record["n"])))


def _notes(table: GroupTable) -> list[str]:
    notes = [f"{table.n} samples; intervals at {100 * table.intervals.level:g} % (score)."]
    floor = table.noise_floor().tprd
    if not math.isnan(floor.value):
        notes.append(f"Equal groups of these sizes would show a TPRD of {floor} by sampling alone.")
    if table.n_missing:
        notes.append(f"{table.n_missing} samples are left out: their group is missing or not known.")
    if not table.by_label and not table.has_cells:
        notes.append(f"Positive label: {_shortened(name_of(table.targets[0]))}.")
    trials = table.numbers["tpr"].trials.T.ravel().tolist()
    names = [
        _shortened(f"{label}, {name_of(group)}" if table.has_cells else name_of(group))
        for (label, group), n in zip(cell_keys(table), trials, strict=True)
        if n == 0
    ]
    if names:
        rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.append(
            f"No TPR, and no part in the gaps, because no sample has that label: {'; '.join(names[:5])}{rest}."
        )
    return notes


def _width(text: str) -> int:
    """Columns that the text takes in a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def _shortened(text: str) -> str:
    """The name on one line, without characters that would move the cursor, and not too long."""
    text = "".join(character if character.isprintable() else "�" for character in text)
    while _width(text) > _WIDEST:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def _aligned(lines: list[list[str]]) -> str:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]

    def row(line: list[str]) -> str:
        cells = [" " * (width - _width(text)) + text for text, width in zip(line[1:], widths[1:], strict=True)]
        return "  ".join([line[0] + " " * (widths[0] - _width(line[0])), *cells]).rstrip()

    return "\n".join(map(row, lines))
