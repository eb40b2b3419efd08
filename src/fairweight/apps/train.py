"""Train on a user's source, with plain training beside it on the same rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairweight.apps.before_after import Differences, table_of
from fairweight.data import Dataset
from fairweight.errors import BadInput, FairweightError, NoSpace, option
from fairweight.metrics import GroupTable
from fairweight.runs.build import Built, build
from fairweight.runs.defaults import with_defaults
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import Result, run
from fairweight.runs.run_search import CANDIDATES, STATE, search_for, search_of, searched
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer
from fairweight.training.lock import FILE as LOCK

BASELINE = "uniform"  # plain training, and the name of its folder inside the method's
REFIT = "refit"  # a second training with the weights of the first, and the name of its folder inside
SWEEP, PICTURE = "trade_off.json", "trade_off.png"  # of a sweep of strength
# What to show while a run is trained: a title -> observers.
Watching = Callable[[str], Sequence[Observer]]


@dataclass(frozen=True)
class Wanted:
    """What the user said; everything else is chosen by the data."""

    source: str
    label: str | None = None
    group: str | None = None
    method: str = "forml"
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)  # options of data.load, as plain values
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of a Spec


@dataclass(frozen=True)
class Prepared:
    """Data that was read and what will be trained on it; nothing is written yet."""

    dataset: Dataset
    spec: Spec
    built: Built

    @property
    def parameters(self) -> int:
        """Number of the network's parameters."""
        return self.built.parameters

    @property
    def baseline(self) -> Spec:
        """Plain training, in every other respect the same."""
        return self.spec.with_(method=BASELINE, method_options={}, search={}, weights={})


@dataclass(frozen=True)
class Trained:
    """The method's run, its table on test, and how it differs from plain training."""

    result: Result
    table: GroupTable
    baseline: Result | None
    differences: Differences | None

    def to_dict(self) -> dict[str, Any]:
        found = {**_about(self.result), "spec": self.result.spec.to_dict()}
        if self.baseline is not None and self.differences is not None:
            found |= {"baseline": _about(self.baseline), "differences": self.differences.to_dict()}
        return found


def _about(result: Result) -> dict[str, Any]:
    return {"folder": str(result.folder.path), "reused": result.reused, "metrics": result.metrics}


def prepare(
    wanted: Wanted, *, device: str = "cpu", data_dir: str | Path | None = None, download: bool = False
) -> Prepared:
    """Read the data, choose what was left open, and build it: what would be refused is refused here."""
    first = Spec(
        wanted.source, wanted.label, wanted.group, data=wanted.data, method=wanted.method, seed=wanted.seed
    )  # fmt: skip
    dataset = dataset_for(first, data_dir, download)
    spec = with_defaults(first, dataset, wanted.training, device)
    spec = spec.with_(search=search_of(spec.method, spec.method_options, wanted.training.get("search")))
    built = build(spec, dataset, device)
    if spec.search:
        search_for(spec, dataset)
    return Prepared(dataset, spec, built)


def train(
    prepared: Prepared,
    out: str | Path,
    *,
    device: str = "cpu",
    baseline: bool = True,
    watching: Watching = lambda title: (),
) -> Trained:
    """Train the method into the folder `out` and plain training into a folder inside it, and compare them."""
    spec, dataset = prepared.spec, prepared.dataset
    done = run_into(spec, out, dataset, device, watching, prepared.built)
    table = table_of(done.folder, dataset)
    if not baseline or spec.method == BASELINE:
        return Trained(done, table, None, None)
    plain = run_into(prepared.baseline, Path(out) / BASELINE, dataset, device, watching)
    differences = Differences(spec.title, table_of(plain.folder, dataset), table, dataset)
    return Trained(done, table, plain, differences)


def run_into(
    spec: Spec, out: str | Path, dataset: Dataset, device: str, watching: Watching, built: Built | None = None
) -> Result:
    """Run the Spec, or take the finished run that is there; remove a folder made for a run that never got going."""
    path = Path(out)
    existed = next((p for p in [path, *path.parents] if p.exists()), path)
    observers = watching(spec.title)
    try:
        if spec.search:
            return searched(spec, path, device=device, dataset=dataset, observers=observers)
        return run(spec, path, device=device, dataset=dataset, observers=observers, built=built)
    except (FairweightError, OSError):
        if path.is_dir() and not RunFolder(path).resumable and not (path / STATE).is_file():
            _remove(path, existed)
        raise


def _remove(path: Path, existed: Path) -> None:
    if path == existed:
        RunFolder(path).clear()
        return
    top = path
    while top.parent != existed:
        top = top.parent
    shutil.rmtree(top, ignore_errors=True)


def check_folder(out: Path, spec: Spec, dataset: Dataset, *, sweep: bool = False, fresh: bool = False) -> None:
    """Refuse a folder with other things in it; clear one with another run where `fresh` asks for it.

    Only files that a run writes are ever deleted.
    """
    check_place(out)
    if not out.exists():
        return
    folder = RunFolder(out)
    for inside in (folder, *(RunFolder(path) for path in _inner(out))):
        inside.tidy(SWEEP, PICTURE, STATE)  # what a kill in the first write of all has left
    swept = (out / SWEEP).is_file()
    if not folder.started and not swept:
        _drop_empty(out)  # what an earlier sweep has left
        if any(path.name != LOCK for path in out.iterdir()):
            raise BadInput(f"{option('out', out)} holds files that are no run; give a new or an empty folder.")
        return
    _check_run(out, folder, spec, dataset, sweep, fresh)


def check_place(out: Path) -> None:
    """Refuse a place where no folder can be written."""
    nearest = next(path for path in [out, *out.absolute().parents] if path.exists())
    if not nearest.is_dir():
        raise BadInput(
            f"{option('out', out)}: {nearest.name} is a file; give the folder that the run is to be written into."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise NoSpace(f"{option('out', out)}: {nearest} may not be written to; give another folder.")


def _check_run(out: Path, folder: RunFolder, spec: Spec, dataset: Dataset, sweep: bool, fresh: bool) -> None:
    swept = (out / SWEEP).is_file()
    if fresh:
        for inner in (RunFolder(path) for path in _inner(out)):
            inner.clear()
        if (out / STATE).is_file():
            shutil.rmtree(out / CANDIDATES, ignore_errors=True)  # of a search that was stopped
        _drop_empty(out)
        for name in (PICTURE, STATE):
            (out / name).unlink(missing_ok=True)
        folder.clear()
        (out / SWEEP).unlink(missing_ok=True)
        return
    same = folder.read(SWEEP).get("of") == spec.fingerprint if swept else folder.holds(spec, dataset)
    if swept != sweep or not same:
        how = f"give another folder, or start over with {option('fresh')}"
        raise BadInput(f"{option('out', out)} holds a run with other settings or data; {how}.")


def _inner(out: Path) -> list[Path]:
    """Folders of the runs inside a run's, the innermost first: plain and second trainings, those of a sweep."""
    named = [path for path in (out / BASELINE, out / REFIT, *out.glob("strength_*")) if path.is_dir()]
    return [inner for path in named for inner in (*_inner(path), path)]


def _drop_empty(out: Path) -> None:
    for path in _inner(out):
        if not any(path.iterdir()):
            path.rmdir()
