"""A table as plain text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from fairweight.metrics._export import cell_keys, cell_records, group_records, name_of
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import SCALARS

if TYPE_CHECKING:
    from fairweight.metrics.group_table import GroupTable

MOST_ROWS = 30  # of more, the worst are shown
_WIDEST = 32  # characters of a name
_TITLES = {"n_positive": "positives", "tpr": "TPR", "fnr": "FNR", "fpr": "FPR", "selection_rate": "selected"}


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
    left = len(keys) - len(order)
    return _aligned(lines) + (f"\nThe {len(order)} worst; to_pandas() has the other {left} too." if left else "")


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
