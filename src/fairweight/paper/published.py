"""What the paper prints: every number of published.toml, by table and row."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class Printed:
    """One printed number; what the paper does not say is None."""

    value: float
    error: float | None  # standard error
    runs: int | None


@cache
def tables() -> dict[str, dict[str, dict[str, Printed]]]:
    """Every printed table by the name that `fairweight reproduce` takes, then by row as printed, then by number."""
    page = tomllib.loads(PAGE.read_text(encoding="utf-8"))["tables"]
    return {name: {row["row"]: _row(row, entry.get("runs")) for row in entry["rows"]} for name, entry in page.items()}


def _row(row: dict[str, Any], runs: int | None) -> dict[str, Printed]:
    numbers = {key: pair for key, pair in row.items() if key != "row"}
    return {key: Printed(float(v), float(error[0]) if error else None, runs) for key, (v, *error) in numbers.items()}
