"""A table as records, as a data frame, as plain values for JSON, and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairweight.constraints import check, one_of
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import BY_CELL, SCALARS

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.metrics.group_table import GroupTable

TAKEN = {  # what to_dict and to_pandas hold beside metrics
    "n", "n_missing", "n_positive", "group", "groups", "attributes", "label", "labels", "by", "cells", "interval",
    "intervals", "noise_floor", "positive",
}  # fmt: skip
MOST_ROWS = 30  # of more, the worst are shown
_WIDEST = 32  # characters of a name
_TITLES = {"n_positive": "positives", "tpr": "TPR", "fnr": "FNR", "fpr": "FPR", "selection_rate": "selected"}


def _columns(table: GroupTable, rows: str) -> dict[str, list[Any]]:
    """By row of groups, or of cells label by label: numbers of samples, and the Estimates of every metric."""
    numbers = table.numbers
    if rows == "cell":
        n = numbers["tpr"].trials.T.ravel().tolist()
        return {"n": n} | {metric: numbers[metric].cells for metric in BY_CELL}
    n, positives = (numbers[metric].trials[:, 0].tolist() for metric in ("accuracy", "tpr"))
    columns = {"n": n, "n_positive": n if table.has_cells else positives}
    return columns | {metric: numbers[metric].rows for metric in table.metrics}


def cell_keys(table: GroupTable) -> list[tuple[Hashable, Hashable]]:
    """List the (label, group) of every cell, label by label."""
    if table.by_label:
        return [(label, label) for label in table.groups]
    return [(label, group) for label in table.targets for group in table.groups]


def _parts(group: Hashable) -> tuple[Hashable, ...]:
    return group if isinstance(group, tuple) else (group,)


def _cell_rows(table: GroupTable) -> list[tuple[Hashable, ...]]:
    return [(label, *_parts(group)) for label, group in cell_keys(table)]


def _name(key: Hashable) -> str:
    return ", ".join(map(str, _parts(key)))


def to_pandas(table: GroupTable, rows: Literal["group", "cell"]) -> pd.DataFrame:
    """One row per group, or per label and group."""
    import pandas as pd

    check("to_pandas", {"rows": rows}, {"rows": one_of("group", "cell")})
    names, keys = table.attributes, [_parts(group) for group in table.groups]
    if rows == "cell" and not table.by_label:
        names, keys = ("label", *names), _cell_rows(table)
    index: pd.Index[Any] = pd.MultiIndex.from_tuples(keys, names=names)
    if len(names) == 1:
        index = pd.Index(list(table.groups), name=names[0])
    columns: dict[str, list[float]] = {}
    for name, column in _columns(table, rows).items():
        if isinstance(column[0], Estimate):
            columns |= {f"{name}{suffix}": [e[k] for e in column] for k, suffix in enumerate(("", "_low", "_high"))}
        else:
            columns[name] = column
    return pd.DataFrame(columns, index=index)


def to_dict(table: GroupTable) -> dict[str, Any]:
    """Everything the table says, as plain values."""
    settings = table.intervals
    estimates = {name: table.estimate(name) for name in (*SCALARS, *table.own_metrics)}
    content = {
        "n": table.n,
        "n_missing": table.n_missing,
        **{name: estimate.value for name, estimate in estimates.items()},
        "intervals": {name: [estimate.low, estimate.high] for name, estimate in estimates.items()},
        "interval": {"level": settings.level, "method": "score", "draws": settings.draws, "seed": settings.seed},
        "by": "label" if table.by_label else list(table.attributes),
        "labels": list(table.labels),
        "positive": None if table.samples.positive is None else table.targets[0],
        "groups": [
            {"group": _name(key), "attributes": dict(zip(table.attributes, _parts(key), strict=True)), **record}
            for key, record in zip(table.groups, to_pandas(table, "group").to_dict("records"), strict=True)
        ],
        "noise_floor": {
            name: {"mean": floor.value, "low": floor.low, "high": floor.high}
            for name, floor in table.noise_floor()._asdict().items()
        },
    }
    if table.has_cells:
        content["cells"] = [
            {"label": _name(label), "group": _name(group), **record}
            for (label, group), record in zip(
                cell_keys(table), to_pandas(table, "cell").to_dict("records"), strict=True
            )
        ]
    # JSON has no NaN and no types but its own.
    values: dict[str, Any] = json.loads(json.dumps(content, default=str), parse_constant=lambda _: None)
    return values


def text_of(table: GroupTable, width: int | None = None) -> str:
    """Rows by group, the numbers that sum them up, the sampling floor, and what was left out.

    width: of a terminal; the last columns of rates that would not fit are left out, down to one, and named.
    """
    title = ", ".join(table.attributes)
    fixed = ["n"] if table.by_label or table.has_cells else ["n", "n_positive"]
    shown = [*fixed, *(metric for metric in table.metrics if metric not in _hidden(table))]
    titles = _TITLES | ({"tpr": "mean TPR"} if table.has_cells else {})
    text, left_out = _block(title, table.groups, _columns(table, "group"), shown, titles, "accuracy", width)
    parts = [text]
    if table.has_cells:
        columns, shown = _columns(table, "cell"), ["n", "tpr", "fpr", "selection_rate"]
        text, also_left_out = _block(f"label, {title}", _cell_rows(table), columns, shown, _TITLES, "tpr", width)
        parts.append(text)
        left_out += also_left_out
    summary = SCALARS | {name: _shortened(name) for name in table.own_metrics}
    parts.append(_aligned([[words, str(table.estimate(name))] for name, words in summary.items()]))
    narrow_note = [f"Columns left out because the terminal is too narrow: {', '.join(left_out)}."] if left_out else []
    return "\n\n".join([*parts, "\n".join([*_notes(table), *narrow_note])])


def _hidden(table: GroupTable) -> tuple[str, ...]:
    """List what says nothing new: fnr is 1 - tpr; by label, accuracy is tpr; means over labels are in the cells."""
    if table.by_label:
        return ("fnr", "accuracy")
    return ("fnr", "fpr", "selection_rate") if table.has_cells else ("fnr",)


def _block(
    title: str,
    keys: Sequence[Hashable],
    columns: dict[str, list[Any]],
    shown: list[str],
    titles: dict[str, str],
    worst_by: str,
    width: int | None,
) -> tuple[str, list[str]]:
    """Rows, or the worst of many; and the titles of the last columns, where the width has no room for them."""
    order, more = list(range(len(keys))), ""
    if len(keys) > MOST_ROWS:
        values = [estimate.value for estimate in columns[worst_by]]
        order = np.argsort(values, kind="stable")[:MOST_ROWS].tolist()  # NaNs last
        more = f"\nThe {MOST_ROWS} worst of {len(keys)}; the run's metrics.json and, in Python, to_pandas() have all."
    lines = [[_shortened(title), *(titles.get(name, _shortened(name)) for name in shown)]]
    lines += [[_shortened(_name(keys[place])), *(str(columns[name][place]) for name in shown)] for place in order]
    kept, least = len(lines[0]), 2 + len({"n", "n_positive"} & set(shown))  # a name, numbers of samples, and one rate
    text = _aligned(lines)
    while width is not None and kept > least and _width(text.split("\n")[0]) > width:
        kept -= 1
        text = _aligned([line[:kept] for line in lines])
    return text + more, lines[0][kept:]


def _notes(table: GroupTable) -> list[str]:
    notes = [f"{table.n:,} samples, {100 * table.intervals.level:g} % intervals (of rates: Wilson score)."]
    floor = table.noise_floor().tprd
    if not math.isnan(floor.value):
        notes.append(f"Equal groups of these sizes would show a TPRD of {floor} by sampling alone.")
    if table.n_missing:
        notes.append(f"{table.n_missing} samples are left out: their group is missing or not known.")
    if not table.by_label and not table.has_cells:
        notes.append(f"Positive label: {_shortened(_name(table.targets[0]))}.")
    trials = table.numbers["tpr"].trials.T.ravel().tolist()
    names = [
        _shortened(f"{label}, {_name(group)}" if table.has_cells else _name(group))
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
    from rich.cells import cell_len

    return cell_len(text)


def _shortened(text: str) -> str:
    """The name on one line, without characters that would move the cursor, and not too long."""
    text = "".join(character if character.isprintable() else "�" for character in text)
    while _width(text) > _WIDEST:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]

    def row(line: list[str]) -> str:
        cells = [" " * (width - _width(text)) + text for text, width in zip(line[1:], widths[1:], strict=True)]
        return "  ".join([line[0] + " " * (widths[0] - _width(line[0])), *cells]).rstrip()

    return "\n".join(map(row, lines))
