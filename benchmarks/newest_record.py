"""The newest record of a benchmark, and its place in a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def newest(records: Path, name: str) -> tuple[str, dict[str, Any]]:
    """The name of the record's folder, and the record."""
    path = sorted(records.glob(f"????-??-??_{name}/record.json"))[-1]
    return path.parent.name, json.loads(path.read_text(encoding="utf-8"))


def placed(text: str, name: str, made: str) -> str:
    """The page's text with what stands between the marks of this name replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{made}\n{end}{after}"
