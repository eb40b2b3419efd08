"""Run into a place: refuse a folder with other things in it, and remove what a failed start has left."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from fairweight.data import Dataset
from fairweight.data.files import is_there
from fairweight.errors import BadInput, FairweightError, MissingData, NoSpace, option
from fairweight.runs.build import Built
from fairweight.runs.folder import FILES, METRICS, READ, RUN, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.run import CANDIDATES, Result, run
from fairweight.runs.spec import Spec
from fairweight.training.callbacks import Observer
from fairweight.training.lock import FILE as LOCK

BASELINE = "uniform"  # plain training, and the name of its folder inside the method's
FORML = "forml"  # what is trained where something is said of a method, and on images
REFIT = "refit"  # a second training with the weights of the first, and the name of its folder inside
SWEEP, PICTURE = "trade_off.json", "trade_off.html"  # of a sweep of strength
# What to show while a run is trained: a title -> observers.
Watching = Callable[[str], Sequence[Observer]]


def run_into(
    spec: Spec, out: str | Path, dataset: Dataset, device: str, watching: Watching, built: Built | None = None
) -> Result:
    """Run the Spec, or take the finished run that is there; remove a folder made for a run that never got going."""
    path = Path(out)
    existed = next((p for p in [path, *path.parents] if p.exists()), path)
    observers = watching(spec.title)
    try:
        return run(spec, path, device=device, dataset=dataset, observers=observers, built=built)
    except (FairweightError, OSError):
        if path.is_dir() and not RunFolder(path).resumable:
            remove(path, existed)
        raise


def remove(path: Path, existed: Path) -> None:
    """Delete the folder of a run that never got going, and those above it that were made for it."""
    if path == existed:
        _clear(path)
    else:
        made = (path, *path.parents)
        shutil.rmtree(made[made.index(existed) - 1], ignore_errors=True)


def finished(run: str | Path) -> RunFolder:
    """The folder of a finished run; where it holds several instead, they are named."""
    folder = RunFolder(run)
    if folder.finished:
        folder.read(RUN)  # a folder without it, or with another's, is refused before anything is made of the rest
        return folder
    if not folder.path.is_dir():
        raise MissingData(f"there is no folder {str(run)!r}; give the folder of a finished run.")
    inside = sorted(path.parent.name for path in folder.path.glob(f"*/{METRICS}"))
    if inside:
        some = ", ".join(inside[:5]) + (" ..." if len(inside) > 5 else "")
        raise MissingData(f"{folder.path} holds {len(inside)} runs and is none itself; give one of them: {some}.")
    if (folder.path / RUN).is_file():
        raise MissingData(f"the run in {folder.path} has not come to its end; start the same training again to go on.")
    raise MissingData(f"{folder.path} is no run folder; give one that `fairweight train` wrote.")


def check_folder(out: Path, spec: Spec, dataset: Dataset, *, sweep: bool = False, fresh: bool = False) -> None:
    """Refuse a folder with other things in it; clear one with another run where `fresh` asks for it.

    Only files that a run writes are ever deleted.
    """
    check_place(out)
    if not out.exists():
        return
    for path in (*_named(out), out / CANDIDATES):
        if path.is_symlink():  # what is written or cleared there would lie elsewhere
            raise BadInput(f"{path} is a link; delete it, or give another {option('out')}.")
    folder, swept = RunFolder(out), (out / SWEEP).is_file()
    for inside in (out, *_inner(out)):
        RunFolder(inside).tidy(SWEEP, PICTURE)  # what a kill in the first write of all has left
    if not folder.started and not swept:
        _drop_empty(out)  # what an earlier sweep has left
        if any(path.name != LOCK for path in out.iterdir()):
            raise BadInput(f"{option('out', out)} holds files that are no run; give a new or an empty folder.")
    elif fresh:
        _clear(out)
    else:
        same = folder.read(SWEEP).get("of") == spec.fingerprint if swept else folder.holds(spec, dataset)
        if swept != sweep or not same:
            how = f"give another folder, or start over with {option('fresh')}"
            raise BadInput(f"{option('out', out)} holds a run with other settings or data; {how}.")


def check_file(out: Path, *read: str, flag: str = "out") -> None:
    """Refuse to write over a file that is read, or one that a finished run relies on; read: paths or globs."""
    if not out.is_file():
        return
    if out.name in READ and (out.parent / MANIFEST).is_file():
        raise BadInput(f"{option(flag, out)} is a file of a run; name another file.")
    if any(out.samefile(path) for one in read for path in (one, *glob.glob(one)) if is_there(Path(path))):  # noqa: PTH207
        raise BadInput(f"{option(flag, out)} is a file that is read here, and would be lost; name another file.")


def check_no_run(out: Path) -> None:
    """Refuse the folder of a run for files of other kinds: some have the names of the run's own."""
    if RunFolder(out).started:
        raise BadInput(
            f"{option('out', out)} is the folder of a run, whose files could be lost; give another, or none."
        )


def check_place(out: Path, flag: str = "out") -> None:
    """Refuse a place where no folder can be written; flag: the option that names it."""
    nearest = next(path for path in [out, *out.absolute().parents] if path.exists())
    if not nearest.is_dir():
        way_out = "give the folder that the run is to be written into"
        raise BadInput(f"{option(flag, out)}: {nearest.name} is a file; {way_out}.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise NoSpace(f"{option(flag, out)}: {nearest} may not be written to; give another folder.")


def _clear(out: Path) -> None:
    """Delete what runs have written here and inside, and nothing else; last what says that there is one."""
    for inner in (*_inner(out), *(out / CANDIDATES).glob("[0-9][0-9][0-9]")):  # of a search that was stopped
        RunFolder(inner).drop(*FILES)
    _drop_empty(out)
    RunFolder(out).drop(PICTURE, *FILES, SWEEP)


def _named(out: Path) -> list[Path]:
    return [out / BASELINE, out / FORML, out / REFIT, *out.glob("strength_*")]


def _inner(out: Path) -> list[Path]:
    """Folders of the runs inside a run's, the innermost first: plain and second trainings, those of a sweep."""
    return [inner for path in _named(out) if path.is_dir() for inner in (*_inner(path), path)]


def _drop_empty(out: Path) -> None:
    for path in (*_inner(out), *(out / CANDIDATES).glob("*"), out / CANDIDATES):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
