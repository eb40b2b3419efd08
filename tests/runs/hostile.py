"""A small finished run, ways to spoil its folder, and every verb that reads one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.command import fairweight
from tests.tables import people

from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder

TABLE = ("people.csv", "--label", "income", "--group", "sex", "--epochs", "2", "--hidden", "4", "--device", "cpu")
TABLE += ("--positive", "high", "--test", "0.25", "--drop", "race", "--missing-groups", "drop", "--exemplar-size", "3")
VERBS: dict[str, tuple[str, ...]] = {
    "predict": ("predict", "run", "people.csv", "--out", "p.csv"),
    "suspects": ("suspects", "run"),
    "condense": ("condense", "run", "--out", "kept"),
    "audit": ("audit", "run", "--out", "page"),
    "refit": ("refit", "run", "--out", "again", "--no-baseline", "--device", "cpu"),
    "train": ("train", *TABLE, "--no-baseline", "--out", "run"),
    "verify": ("verify", "run"),
}


def desk(folder: Path) -> Path:
    """A folder with a table and a finished run."""
    people(160).to_csv(folder / "people.csv", index=False)
    done = fairweight(folder, "train", *TABLE, "--no-baseline", "--out", "run")
    assert done.returncode == 0, done.stderr
    return folder


def copied(made: Path, to: Path) -> Path:
    """A copy that may be spoiled."""
    shutil.copytree(made, to)
    return to


def ask(folder: Path, verb: str) -> SimpleNamespace:
    return fairweight(folder, *VERBS[verb])


def is_one_sentence(done: SimpleNamespace) -> bool:
    """Refused as users are told things: status 2, one line, no trace."""
    told = [line for line in done.stderr.splitlines() if line.startswith("fairweight: ")]
    return done.returncode == 2 and len(told) == 1 and "Traceback" not in done.stderr


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside plain values."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def with_changed(folder: Path, name: str, way: tuple[Any, ...], value: Any, *, drop: bool = False) -> None:
    """Put a value at a place of a JSON file, or take that place away; the manifest says that all is well."""
    path = folder / name
    values = json.loads(path.read_text())
    if not way:
        values = value
    else:
        inner = values
        for key in way[:-1]:
            inner = inner[key]
        if drop:
            del inner[way[-1]]
        else:
            inner[way[-1]] = value
    path.write_text(json.dumps(values))
    RunFolder(folder).seal()


JSON = (RUN, METRICS, PREPROCESSING)
