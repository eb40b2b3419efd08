"""manifest.json: the sha256 of every file of a run, written last, so that a reader knows what it reads."""

from __future__ import annotations

import hashlib
import io
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
_MOST = 2**28  # bytes: no JSON file of a run is larger
_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)  # of a file in the folder itself


@dataclass(frozen=True)
class Manifest:
    """By file: its sha256 and size."""

    files: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> Manifest:
        """The files of these names that are there."""
        files = {}
        for name in sorted(set(names)):
            if (folder / name).is_file():
                with (folder / name).open("rb") as file:
                    files[name] = _entry(file)
        return cls(files)

    def with_(self, folder: Path, names: Iterable[str]) -> Manifest:
        """Read the files of these names again; leave out those that do not exist."""
        kept = {name: entry for name, entry in self.files.items() if name not in set(names)}
        return Manifest(dict(sorted({**kept, **Manifest.of(folder, names).files}.items())))

    def while_replaced(self, contents: Mapping[str, bytes]) -> Manifest:
        """Also accept the new content of files that are about to be replaced: an interrupted write leaves either one.

        Files that are new are added once they are written.
        """
        new = {name: {"becomes": _entry(io.BytesIO(content))} for name, content in contents.items()}
        return Manifest({name: {**entry, **new.get(name, {})} for name, entry in self.files.items()})

    @property
    def unsettled(self) -> list[str]:
        """Files whose replacement was interrupted."""
        return [name for name, entry in self.files.items() if "becomes" in entry]

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            values = read_json(path)
            problem_found = problem(values, FORM)
        except (OSError, ValueError, RecursionError) as error:
            problem_found = str(error)
        if problem_found is None and not all(_NAME.fullmatch(name) for name in values["files"]):
            problem_found = "it names what is no file of a run"
        if problem_found is None and values["sha256"] != _sum(values["files"]):
            problem_found = "it is not what was written"
        if problem_found is not None:
            raise Damaged(f"{path} cannot be relied on ({problem_found}); {AGAIN}.")
        return cls(values["files"])

    def write(self, folder: Path) -> None:
        """Write it into the folder, whole or not at all."""
        values = {"version": VERSION, "files": dict(self.files), "sha256": _sum(self.files)}
        write_atomically(folder / FILE, (json.dumps(values, indent=1) + "\n").encode())

    def names(self, folder: Path, others: Iterable[str]) -> list[str]:
        """The files that it names, and these others where the folder has them."""
        return list(dict.fromkeys([*self.files, *(name for name in others if (folder / name).exists())]))

    def problem(self, path: Path) -> str | None:
        """What is wrong with a file of the folder, such as "it is not as it was written"; None where it is whole."""
        entry = self.files.get(path.name)
        if entry is None:
            return "the manifest does not know it"
        if reason := odd(path):
            return reason
        with path.open("rb") as file:
            now = _entry(file)
        as_written = now in ({key: one[key] for key in now} for one in (entry, entry.get("becomes", entry)))
        return None if as_written else "it is not as it was written"


def odd(path: Path) -> str | None:
    """Say why a file must not be read: a run from elsewhere may link to files that are not its own."""
    if not path.exists():
        return "it is not there"
    if not path.is_file():
        return "it is no regular file"
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        return "it is a link that leads out of the folder"
    return None


def read_json(path: Path) -> Any:
    """Read a JSON file of a run; a ValueError says why it must not be read, or cannot."""
    if reason := odd(path):
        raise ValueError(reason)
    if path.stat().st_size > _MOST:
        raise ValueError("it is far too large")
    return json.loads(path.read_bytes())


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


def _entry(file: io.BufferedReader | io.BytesIO) -> dict[str, Any]:
    return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": file.seek(0, io.SEEK_END)}


def _sum(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
