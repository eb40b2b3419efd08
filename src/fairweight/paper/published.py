"""What the paper prints: every number of published.toml, by table and row."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published.toml")


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
    for name, entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["tables"].items():
        runs = entry.get("runs")
        rows = {
            row["row"]: {
                key: Printed(float(value[0]), float(value[1]) if len(value) > 1 else None, runs)
                for key, value in row.items()
                if key != "row"
            }
            for row in entry["rows"]
        }
        found[name] = PrintedTable(entry["label"], runs, rows)
    return found
