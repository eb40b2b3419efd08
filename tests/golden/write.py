"""Writes every golden file anew: .venv/bin/python -m tests.golden.write [part of a curve's name ...]."""

from __future__ import annotations

import sys

from tests.golden import snapshots
from tests.golden.cases import CASES, FOLDER, as_text, file_of, record


def write(parts: list[str]) -> None:
    """The curves whose names hold one of the parts; without parts all of them, and both snapshots."""
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        if not parts or any(part in case.name for part in parts):
            file_of(case).write_text(as_text(record(case)))
    if not parts:
        for path in set(FOLDER.glob("*")) - {file_of(case) for case in CASES}:
            path.unlink()
        for path, made in snapshots.SNAPSHOTS.items():
            path.write_text(made())


if __name__ == "__main__":
    write(sys.argv[1:])
