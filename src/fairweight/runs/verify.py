"""See whether the files of a run, and of the runs inside its folder, are as they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.errors import Damaged, FairweightError, MissingData
from fairweight.runs.folder import METRICS, MODEL, PREPROCESSING, READ, RUN, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.manifest import Manifest
from fairweight.training.lock import FILE as LOCK


@dataclass(frozen=True)
class Verified:
    """What is whole in one folder, and what is not."""

    folder: Path
    whole: tuple[str, ...]
    problems: Mapping[str, str]  # by file: what is wrong
    others: tuple[str, ...]  # files that the manifest does not know
    unverified: bool = False  # a run from before manifests

    @property
    def fine(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "folder": str(self.folder),
            "verified": not self.unverified,
            "whole": list(self.whole),
            "problems": dict(self.problems),
            "others": list(self.others),
        }

    def text(self) -> str:
        """One line for each thing to know."""
        if self.unverified:
            lines = [f"{self.folder}: no {MANIFEST}, so nothing says whether its files are as they were written."]
        else:
            lines = [f"{self.folder}: {len(self.whole)} of {len(self.whole) + len(self.problems)} files are whole."]
        lines += [f"  {name}: {what}" for name, what in self.problems.items()]
        return "\n".join([*lines, *(f"  {name}: not of the run" for name in self.others)])


def verify(run: str | Path) -> list[Verified]:
    """Verify a run's folder, and every run inside it."""
    top = Path(run)
    if not top.is_dir():
        raise MissingData(f"there is no folder {str(run)!r}; give the folder of a finished run.")
    places = sorted({path.parent for name in (MANIFEST, METRICS, RUN) for path in top.rglob(name)})
    if not places:
        raise MissingData(f"{top} is no run folder; give one that `fairweight train` wrote.")
    return [_verified(place) for place in places]


def _verified(place: Path) -> Verified:
    folder = RunFolder(place)
    there = sorted(path.name for path in place.iterdir() if not path.is_dir() and path.name not in (LOCK, MANIFEST))
    if not (place / MANIFEST).is_file():
        if not folder.finished:
            return Verified(place, (), {MANIFEST: "it is not there: the run has not come to its end"}, ())
        return Verified(place, (), _unreadable(folder, there), (), unverified=True)
    try:
        manifest = Manifest.read(place)
    except Damaged as error:
        return Verified(place, (), {MANIFEST: str(error)}, tuple(there))
    assert manifest is not None
    names = {**manifest.files, **dict.fromkeys(name for name in there if name in READ)}
    found = {name: manifest.problem(place / name) for name in names}
    problems = {name: what for name, what in found.items() if what is not None}
    whole = tuple(name for name in found if name not in problems)
    return Verified(place, whole, problems, tuple(name for name in there if name not in found))


def _unreadable(folder: RunFolder, there: list[str]) -> dict[str, str]:
    """Of a run without a manifest: what cannot even be read."""
    problems = {}
    for name in (RUN, METRICS, PREPROCESSING):
        try:
            folder.read(name)
        except FairweightError as error:
            problems[name] = str(error)
    if MODEL not in there:
        problems[MODEL] = "it is not there"
    return problems
