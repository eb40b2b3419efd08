"""manifest.json: the sha256 of every file of a run, written last, so that a reader knows what it reads."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.errors import BadInput, Damaged, MissingData
from fairweight.runs.schema import MANIFEST as FORM
from fairweight.runs.schema import problem
from fairweight.training.state import write_atomically

FILE = "manifest.json"
VERSION = 1
AGAIN = "put a good copy back, or train the run again"
_MOST = 2**24  # bytes: no manifest is larger
_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)  # of a file in the folder itself


@dataclass(frozen=True)
class Manifest:
    """By file: its sha256 and size."""

    files: Mapping[str, Mapping[str, Any]]

    def with_(self, folder: Path, names: Iterable[str]) -> Manifest:
        """This one with the files of these names as they now are; those that are not there are left out."""
        kept = {name: entry for name, entry in self.files.items() if name not in set(names)}
        return Manifest(dict(sorted({**kept, **Manifest.of(folder, names).files}.items())))

    def while_replaced(self, contents: Mapping[str, bytes]) -> Manifest:
        """This one for the moment in which files are replaced: a kill leaves the old or the new one, and both are fine.

        Files that it does not know yet are not in it until they are there.
        """
        new = {name: _entry(content) for name, content in contents.items() if name in self.files}
        return Manifest({name: {**entry, **_becomes(new.get(name))} for name, entry in self.files.items()})

    @property
    def unsettled(self) -> list[str]:
        """Files that somebody was killed over while replacing them."""
        return [name for name, entry in self.files.items() if "becomes" in entry]

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> Manifest:
        """The files of these names that are there."""
        there = [folder / name for name in sorted(set(names)) if (folder / name).is_file()]
        return cls({path.name: {"sha256": digest(path), "bytes": path.stat().st_size} for path in there})

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            if leads_out(path):
                raise ValueError("it is a link that leads out of the folder")
            if path.stat().st_size > _MOST:
                raise ValueError("it is far too large")
            values = json.loads(path.read_bytes())
            found = problem(values, FORM)
        except (OSError, ValueError, RecursionError) as error:
            found = str(error)
        if found is None and not all(_NAME.fullmatch(name) for name in values["files"]):
            found = "it names what is no file of a run"
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
        if leads_out(path):
            return "it is a link that leads out of the folder"
        size = path.stat().st_size
        allowed = [one["sha256"] for one in (entry, entry.get("becomes", entry)) if one["bytes"] == size]
        return None if allowed and digest(path) in allowed else "it is not as it was written"


def leads_out(path: Path) -> bool:
    """True for a link to a file in another folder: a stranger's run may show nothing that is not its own."""
    return path.is_symlink() and path.resolve().parent != path.parent.resolve()


def read_planned(path: Path, sha256: str, what: str) -> bytes:
    """Read a file that a Spec names; refuse one that has changed since."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}, which {what}, is no regular file; plan the run again.")
        content = path.read_bytes()
    except OSError as error:
        raise MissingData(f"{path}, which {what}, cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BadInput(f"{path} has changed since the run was planned; plan it again.")
    return content


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _entry(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _becomes(entry: dict[str, Any] | None) -> dict[str, Any]:
    return {} if entry is None else {"becomes": entry}


def _sum(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
