"""manifest.json: the sha256 of every file of a run, written last, so that a reader knows what it reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.errors import Damaged
from fairweight.runs.schema import MANIFEST as FORM
from fairweight.runs.schema import problem
from fairweight.training.state import write_atomically

FILE = "manifest.json"
VERSION = 1
AGAIN = "put a good copy back, or train the run again"
_MOST = 2**24  # bytes: no manifest is larger


@dataclass(frozen=True)
class Manifest:
    """By file: its sha256 and size."""

    files: Mapping[str, Mapping[str, Any]]

    def with_(self, folder: Path, names: Iterable[str]) -> Manifest:
        """This one with the files of these names as they now are; those that are not there are left out."""
        kept = {name: entry for name, entry in self.files.items() if name not in set(names)}
        return Manifest(dict(sorted({**kept, **Manifest.of(folder, names).files}.items())))

    def without(self, names: Iterable[str]) -> Manifest:
        """This one without these files."""
        gone = set(names)
        return Manifest({name: entry for name, entry in self.files.items() if name not in gone})

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> Manifest:
        """The files of these names that are there."""
        there = [name for name in sorted(set(names)) if (folder / name).is_file()]
        return cls({name: {"sha256": digest(folder / name), "bytes": (folder / name).stat().st_size} for name in there})

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            if path.stat().st_size > _MOST:
                raise ValueError("it is far too large")
            values = json.loads(path.read_bytes())
            found = problem(values, FORM)
        except (OSError, ValueError, RecursionError) as error:
            found = str(error)
        if found is None and values["sha256"] != _sum(values["files"]):
            found = "it is not what was written"
        if found is not None:
            raise Damaged(f"{path} cannot be relied on ({found}); {AGAIN}.")
        return cls(values["files"])

    def write(self, folder: Path) -> None:
        """Write it into the folder, whole or not at all."""
        values = {"version": VERSION, "files": dict(self.files), "sha256": _sum(self.files)}
        write_atomically(folder / FILE, (json.dumps(values, indent=1) + "\n").encode())

    def problem(self, path: Path) -> str | None:
        """What is wrong with a file of the folder, such as "it is not as it was written"; None where it is whole."""
        entry = self.files.get(path.name)
        if entry is None:
            return "the manifest does not know it"
        if not path.is_file():
            return "it is not there"
        if path.stat().st_size != entry["bytes"] or digest(path) != entry["sha256"]:
            return "it is not as it was written"
        return None


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sum(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
