"""See whether the files of a run, and of the runs inside its folder, are as they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairweight.errors import Damaged, MissingData
from fairweight.runs.folder import METRICS, READ, RUN, RunFolder
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
        values = {**asdict(self), "folder": str(self.folder), "verified": not self.unverified}
        del values["unverified"]
        return values

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
    there = sorted(path.name for path in place.iterdir() if not path.is_dir() and path.name not in (LOCK, MANIFEST))
    try:
        manifest = Manifest.read(place)
    except Damaged as error:
        return Verified(place, (), {MANIFEST: str(error)}, tuple(there))
    if manifest is None:
        unfinished = {MANIFEST: "it is not there: the run has not come to its end"}
        finished = RunFolder(place).finished
        return Verified(place, (), {} if finished else unfinished, (), unverified=finished)
    names = {**manifest.files, **dict.fromkeys(name for name in there if name in READ)}
    problems = {name: what for name in names if (what := manifest.problem(place / name)) is not None}
    whole = tuple(name for name in names if name not in problems)
    return Verified(place, whole, problems, tuple(name for name in there if name not in names))
