"""What the paper prints: every number of published.toml, by table and row."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Printed:
    """One printed number; what the paper does not say is None."""

    value: float
    error: float | None  # standard error
    runs: int | None


@dataclass(frozen=True)
class PrintedTable:
    """One printed table."""

    label: str  # its \\label in the paper's source
    runs: int | None
    rows: dict[str, dict[str, Printed]]  # by row as printed, then by number


@cache
def tables() -> dict[str, PrintedTable]:
    """Every printed table by the name that `fairweight reproduce` takes."""
    found = {}
    content = Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
    for name, entry in tomllib.loads(content)["tables"].items():
        runs, rows = entry.get("runs"), {}
        for row in entry["rows"]:
            numbers = ((key, [float(v) for v in pair]) for key, pair in row.items() if key != "row")
            rows[row["row"]] = {key: Printed(pair[0], (*pair, None)[1], runs) for key, pair in numbers}
        found[name] = PrintedTable(entry["label"], runs, rows)
    return found
