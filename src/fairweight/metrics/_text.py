"""A table as plain text for a terminal."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from fairweight.metrics._export import cell_keys, cell_records, group_records, name_of
from fairweight.metrics._statistic import SCALARS
from fairweight.metrics.estimate import Estimate

if TYPE_CHECKING:
    from fairweight.metrics.table import GroupTable

MOST_ROWS = 30  # of more, the worst are shown
_WIDEST = 32  # characters of a name
_TITLES = {"n_positive": "positives", "tpr": "TPR", "fnr": "FNR", "fpr": "FPR", "selection_rate": "selected"}
_SUMMARY = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "worst_group_accuracy": "worst group's accuracy",
    "tprd": "TPRD",
    "max_fnr": "maxFNR",
    "fpr_gap": "FPR gap",
    "equalised_odds_gap": "equalised-odds gap",
    "selection_rate_gap": "selection-rate gap",
    "tpr_std": "TPR, standard deviation",
    "tpr_worst_tenth": "TPR, worst tenth",
}


def text_of(table: GroupTable, width: int | None = None) -> str:
    """Rows by group, the numbers that sum them up, the sampling floor, and what was left out.

    width: of a terminal; the last columns of rates that would not fit are left out, down to one, and named.
    """
    title = table.attributes[0] if len(table.attributes) == 1 else ", ".join(table.attributes)
    shown = [metric for metric in table.metrics if metric not in _hidden(table)]
    columns = ["n", *([] if table.by_label or table.has_cells else ["n_positive"]), *shown]
    titles = _TITLES | ({"tpr": "mean TPR"} if table.has_cells else {})
    lost: list[str] = []
    while True:
        text = _rows(title, list(table.groups), group_records(table), columns, titles, worst_by="accuracy")
        if width is None or len(shown) < 2 or max(map(_width, text.split("\n"))) <= width:
            break
        lost.insert(0, shown.pop())
        columns.remove(lost[0])
    parts = [text]
    if table.has_cells:
        keys: list[Hashable] = [(name_of(label), name_of(group)) for label, group in cell_keys(table)]
        parts.append(
            _rows(f"label, {title}", keys, cell_records(table), ["n", "tpr", "fpr", "selection_rate"], _TITLES, "tpr")
        )
    summary = [
        [_SUMMARY.get(name, _shortened(name)), str(table.estimate(name))] for name in (*SCALARS, *table.own_metrics)
    ]
    parts.append(_aligned(summary))
    narrow = [f"Not shown for want of width: {', '.join(titles.get(name, name) for name in lost)}."] if lost else []
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
        worst = np.argsort([record[worst_by] for record in records], kind="stable")  # NaNs last
        order = worst[:MOST_ROWS].tolist()
    lines = [[_shortened(title), *(titles.get(column, _shortened(column)) for column in columns)]]
    for place in order:
        lines.append([_shortened(name_of(keys[place])), *(_cell(records[place], column) for column in columns)])
    text = _aligned(lines)
    left = len(keys) - len(order)
    return text if not left else f"{text}\nThe {len(order)} worst; to_pandas() has the other {left} too."


def _cell(record: dict[str, float], column: str) -> str:
    if f"{column}_low" not in record:
        return str(int(record[column]))
    return str(Estimate(record[column], record[f"{column}_low"], record[f"{column}_high"], int(record["n"])))


def _notes(table: GroupTable) -> list[str]:
    level = f"{100 * table.intervals.level:g} %"
    notes = [f"{table.n} samples; intervals at {level} ({table.intervals.method})."]
    floor = table.noise_floor().tprd
    if not math.isnan(floor.value):
        notes.append(f"Equal groups of these sizes would show a TPRD of {floor} by sampling alone.")
    if table.n_missing:
        notes.append(f"{table.n_missing} samples are left out: their group is missing.")
    if not table.by_label and not table.has_cells:
        notes.append(f"Positive label: {_shortened(name_of(table.targets[0]))}.")
    trials = table.numbers.cell_trials("tpr").T.ravel().tolist()
    empty = [key for key, n in zip(cell_keys(table), trials, strict=True) if n == 0]
    if empty:
        names = [
            _shortened(name_of(group if table.by_label or not table.has_cells else (label, name_of(group))))
            for label, group in empty
        ]
        rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.append(
            f"No TPR, and no part in the gaps, for want of samples of that label: {'; '.join(names[:5])}{rest}."
        )
    return notes


def _width(text: str) -> int:
    """Columns that the text takes in a terminal: East Asian wide characters two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _shortened(text: str) -> str:
    """The name on one line, without characters that would move the cursor, and not too long."""
    text = "".join(character if character.isprintable() else "�" for character in text)
    while _width(text) > _WIDEST:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def _aligned(lines: list[list[str]]) -> str:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(_width(line[place]) for line in lines) for place in range(len(lines[0]))]

    def row(line: list[str]) -> str:
        cells = [" " * (width - _width(text)) + text for text, width in zip(line[1:], widths[1:], strict=True)]
        return "  ".join([line[0] + " " * (widths[0] - _width(line[0])), *cells]).rstrip()

    return "\n".join(map(row, lines))
