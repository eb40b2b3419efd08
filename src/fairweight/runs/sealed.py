"""Read and write a run's folder: every file is verified when it is read, and is written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairweight.errors import BadInput, Damaged, MissingData
from fairweight.runs import schema
from fairweight.runs.manifest import AGAIN, Manifest, odd, read_json
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training import state
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.lock import FILE as LOCK
from fairweight.training.lock import claimed, make_folder
from fairweight.training.log import FILE as LOG

RUN, METRICS, WEIGHTS, MODEL = "run.json", "metrics.json", "weights.parquet", "model.safetensors"
PATHS, LOGITS = "paths.safetensors", "logits.safetensors"
PREDICTIONS, PREPROCESSING = "predictions.parquet", "preprocessing.json"
AUDIT = ("report.html", "MODEL_CARD.md")
SUSPECTS, SEARCH = "suspects.csv", "search.json"
# In the order in which they are deleted: what says that the run is finished first, what says that it is one last.
FILES = (
    *(MANIFEST, METRICS, WEIGHTS, MODEL, PATHS, LOGITS, PREDICTIONS, PREPROCESSING, CHECKPOINT, LOG, *AUDIT, SUSPECTS),
    *(SEARCH, RUN),
)
SEALED = tuple(name for name in FILES if name not in (MANIFEST, CHECKPOINT))  # what a manifest holds
READ = tuple(name for name in SEALED if name not in (*AUDIT, SUSPECTS))  # what readers rely on


class SealedFolder:
    """Reads and writes the files of one run; knows nothing of their content."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def beside(self) -> Path:
        """The folder that it lies in, with the runs beside it."""
        # "." and ".." have it in no name
        return self.path.resolve().parent if self.path.name in ("", "..") else self.path.parent

    @property
    def finished(self) -> bool:
        """True if the run came to its end: its manifest is written last; of runs from before, its numbers."""
        if not (self.path / METRICS).is_file():
            return False
        return (self.path / MANIFEST).is_file() or not self._promised()

    @property
    def started(self) -> bool:
        return (self.path / RUN).is_file()

    @property
    def resumable(self) -> bool:
        """True if there is a checkpoint, a search that has begun or a finished run."""
        return self.finished or (self.path / CHECKPOINT).is_file() or (self.path / SEARCH).is_file()

    @property
    def verified(self) -> bool:
        """True if there is a manifest, so that every file is checked when it is read; runs from before have none."""
        return (self.path / MANIFEST).is_file()

    def _promised(self) -> bool:
        """Whether run.json says that a manifest belongs to the run."""
        with suppress(OSError, ValueError, RecursionError, AttributeError):
            return bool(read_json(self.path / RUN).get("manifest"))
        return False

    def drop(self, *names: str) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def tidy(self, *names: str) -> None:
        """Delete partial files that killed writers left, of the run's files and of these."""
        if self.path.is_dir():
            for name in (*FILES, *names):
                state.clear(self.path / name)

    def seal(self, *names: str) -> None:
        """Write the manifest of all files of the run, and of these: from now on they are verified."""
        Manifest.of(self.path, [*SEALED, *names]).write(self.path)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Add files to a finished run, or replace them; the run stays valid if this is killed."""
        sealed = Manifest.read(self.path)
        if sealed is not None:
            sealed.while_replaced(files).write(self.path)
        for name, content in files.items():
            state.write_atomically(self.path / name, content)
        if sealed is not None:
            sealed.with_(self.path, files).write(self.path)

    def copy(self, other: SealedFolder, names: Iterable[str]) -> None:
        """Take these files of another run as they are, and delete those that it lacks."""
        for name in names:
            if (other.path / name).is_file():
                state.write_atomically(self.path / name, other.checked(name).read_bytes())
            else:
                self.drop(name)

    def checked(self, name: str) -> Path:
        """Return the path of a file after verifying it: a regular file whose content is the manifest's."""
        path = self.path / name
        try:
            manifest = Manifest.read(self.path)
            if not path.exists() and (manifest is None or name not in manifest.files):
                raise MissingData(f"{path} is not there; {self.path} is no finished run, give the folder of one.")
            known = manifest is not None and (name in SEALED or name in manifest.files)
            found = manifest.problem(path) if known and manifest is not None else odd(path)
        except OSError as error:
            raise BadInput(f"{path} cannot be read ({error.strerror}); {AGAIN}.") from error
        if found is not None:
            raise Damaged(f"{path} cannot be relied on ({found}: changed or damaged since); {AGAIN}.")
        if manifest is None and name in SEALED and name != RUN and (self.path / METRICS).is_file() and self._promised():
            raise Damaged(
                f"{self.path / MANIFEST} is not there, so the run has not come to its end or was changed; "
                "start the same training again."
            )
        return path

    def verify_all(self) -> None:
        """Refuse a finished run if any file has changed; complete a replacement that was interrupted."""
        manifest = Manifest.read(self.path)
        if manifest is not None:
            for name in manifest.names(self.path, READ):
                self.checked(name)
            if manifest.unsettled:
                manifest.with_(self.path, manifest.unsettled).write(self.path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Create the folder, lock it, and delete partial files of killed writers."""
        with claimed(self.path):
            self.tidy()
            yield

    def make(self) -> None:
        """Create the folder, or refuse one that takes no files."""
        make_folder(self.path)

    def read(self, name: str) -> dict[str, Any]:
        path = self.checked(name)
        try:
            values = read_json(path)
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(f"{path} cannot be read ({error}); {AGAIN}.") from error
        found = schema.problem_of(name, values)
        if found is not None:
            raise BadInput(f"{path} is not as a run writes it: {found}; {AGAIN}.")
        return dict(values)

    def write(self, name: str, values: dict[str, Any]) -> None:
        self.put({name: (json.dumps(values, indent=2) + "\n").encode()})


@dataclass(frozen=True)
class Verified:
    """What is whole in one folder, and what is not."""

    folder: Path
    whole: tuple[str, ...]
    problems: Mapping[str, str]  # by file: what is wrong
    others: tuple[str, ...]  # files that the manifest does not know
    verified: bool = True  # False: a run from before manifests

    @property
    def fine(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}

    def text(self) -> str:
        if self.verified:
            lines = [f"{self.folder}: {len(self.whole)} of {len(self.whole) + len(self.problems)} files are whole."]
        else:
            lines = [f"{self.folder}: no {MANIFEST}, so nothing says whether its files are as they were written."]
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
        if SealedFolder(place).finished:
            return Verified(place, (), {}, (), verified=False)
        return Verified(place, (), {MANIFEST: "it is not there: the run has not come to its end"}, ())
    names = manifest.names(place, READ)
    problems = {name: what for name in names if (what := _problem(manifest, place / name)) is not None}
    whole = tuple(name for name in names if name not in problems)
    return Verified(place, whole, problems, tuple(name for name in there if name not in names))


def _problem(manifest: Manifest, path: Path) -> str | None:
    try:
        return manifest.problem(path)
    except OSError as error:
        return f"it cannot be read, {error.strerror}"
