"""A comparison of methods, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from fairweight.paper._table_text import WIDTH, mean_text


def text_of(record: Mapping[str, Any]) -> str:
    """One table: mean ± standard error, the paired test against Uniform, and the cost."""
    return "\n".join(_lines(record))


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    seeds = len(record["seeds"])
    yield from textwrap.wrap(f"{record['source']}: {record['protocol']}.", WIDTH)
    yield ""
    width = max([len(row["title"]) for row in record["rows"]] + [len("method")]) + 2
    marks = {"lower": "↓", "higher": "↑"}
    titles = [f"{n['title']} {marks[n['better']]}" for n in record["numbers"]]
    head = "".join(f"{title:>17s}" for title in titles) + f"{'time':>8s}"
    yield f"{'method':{width}s}{head}   from uniform (p): " + ", ".join(n["title"] for n in record["numbers"])
    for row in record["rows"]:
        cells = "".join(f"{mean_text(row['means'][n['key']]):>17s}" for n in record["numbers"])
        cost = record["cost"].get(row["key"])
        yield f"{row['title']:{width}s}{cells}{'–' if cost is None else f'× {cost:.1f}':>8s}   {_apart(row, record)}"
    yield ""
    yield from textwrap.wrap(
        f"In %, mean ± standard error over {seeds} seeds, on test. In brackets: the p-value of a "
        f"{record['paired_test']} against uniform; of {max(0, len(record['rows']) - 1)} methods, one in twenty falls "
        "below 0.05 by chance. Time: training time in multiples of uniform's, the median over seeds.",
        WIDTH,
    )
    for method, reason in record["left_out"].items():
        yield f"Not run: {method}: {reason}"


def _apart(row: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    found = next(iter(row["compared"].values()), None)
    if found is None:
        return ""
    cells = []
    for number in record["numbers"]:
        entry = found[number["key"]]
        p = "" if entry["p"] is None else f" ({entry['p']:.2g})"
        cells.append("–" if entry["mean"] is None else f"{entry['mean']:+.2f}{p}")
    return ", ".join(cells)
