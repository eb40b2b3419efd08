"""From what a user says of a source to a finished run, with plain training beside it on the same rows."""

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
from fairweight.runs.build import network_for, optimizer_for, scheduler_for
from fairweight.runs.build_method import method_from
from fairweight.runs.defaults import with_defaults
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import Result, run
from fairweight.runs.run_search import STATE, search_for, search_of, searched
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer

BASELINE = "uniform"  # plain training, and the name of its folder inside the method's
REFIT = "refit"  # a second training with the weights of the first, and the name of its folder inside
SWEEP, PICTURE = "trade_off.json", "trade_off.png"  # of a sweep of strength
# What to show while a run is trained: a title -> observers.
Watching = Callable[[str], Sequence[Observer]]


@dataclass(frozen=True)
class Wanted:
    """What the user said; everything else is chosen to suit the data."""

    source: str
    label: str | None = None
    group: str | None = None
    method: str = "forml"
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)  # options of data.load, as plain values
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of a Spec


@dataclass(frozen=True)
class Prepared:
    """Data that was read and a Spec that was tried: nothing is written yet."""

    dataset: Dataset
    spec: Spec
    parameters: int  # of the network

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
        """Plain values."""
        found: dict[str, Any] = {
            "folder": str(self.result.folder.path),
            "spec": self.result.spec.to_dict(),
            "reused": self.result.reused,
            "metrics": self.result.metrics,
        }
        if self.baseline is not None and self.differences is not None:
            found["baseline"] = {
                "folder": str(self.baseline.folder.path),
                "reused": self.baseline.reused,
                "metrics": self.baseline.metrics,
            }
            found["differences"] = self.differences.to_dict()
        return found


def prepare(
    wanted: Wanted, *, device: str = "cpu", data_dir: str | Path | None = None, download: bool = False
) -> Prepared:
    """Read the data, choose what was left open, and try the settings on a throw-away model."""
    first = Spec(
        wanted.source, wanted.label, wanted.group, data=wanted.data, method=wanted.method, seed=wanted.seed
    )  # fmt: skip
    dataset = dataset_for(first, data_dir, download)
    spec = with_defaults(first, dataset, wanted.training, device)
    spec = spec.with_(search=search_of(spec.method, spec.method_options, wanted.training.get("search")))
    return Prepared(dataset, spec, tried(spec, dataset))


def tried(spec: Spec, dataset: Dataset) -> int:
    """Make everything that the Spec names once, so that a wrong word is refused before anything is written.

    The number of the network's parameters.
    """
    model = network_for(dataset.preprocessing, spec.network)
    optimizer = optimizer_for(model, spec, "cpu")
    scheduler_for(optimizer, spec)
    method_from(spec.method, spec.method_options, model, len(dataset.train))
    if spec.search:
        search_for(spec, dataset)
    return sum(p.numel() for p in model.parameters())


def train(
    prepared: Prepared,
    out: str | Path,
    *,
    device: str = "cpu",
    baseline: bool = True,
    watching: Watching = lambda title: (),
) -> Trained:
    """The method's run in the folder `out`, plain training in a folder inside it, and what differs between them."""
    spec, dataset = prepared.spec, prepared.dataset
    done = run_into(spec, out, dataset, device, watching)
    table = table_of(done.folder, dataset)
    if not baseline or spec.method == BASELINE:
        return Trained(done, table, None, None)
    plain = run_into(prepared.baseline, Path(out) / BASELINE, dataset, device, watching)
    differences = Differences(spec.title, table_of(plain.folder, dataset), table, dataset)
    return Trained(done, table, plain, differences)


def run_into(spec: Spec, out: str | Path, dataset: Dataset, device: str, watching: Watching) -> Result:
    """A run, or the finished one that is there; a folder made for a run that never got going is taken away again."""
    path = Path(out)
    first = next((p for p in [path, *path.parents] if p.exists()), path)
    try:
        how = searched if spec.search else run
        return how(spec, path, device=device, dataset=dataset, observers=watching(spec.title))
    except (FairweightError, OSError):
        if path.is_dir() and not RunFolder(path).resumable and not (path / STATE).is_file():
            _remove(path, first)
        raise


def _remove(path: Path, existed: Path) -> None:
    """Take away the folders that were made for the run, and nothing that was there before."""
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
    nearest = next(path for path in [out, *out.absolute().parents] if path.exists())
    if not nearest.is_dir():
        raise BadInput(
            f"{option('out', out)}: {nearest.name} is a file; give the folder that the run is to be written into."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise NoSpace(f"{option('out', out)}: {nearest} may not be written to; give another folder.")
    if not out.exists():
        return
    folder = RunFolder(out)
    swept = (out / SWEEP).is_file()
    if not folder.started and not swept:
        _drop_empty(out)  # what an earlier sweep has left
        if any(out.iterdir()):
            raise BadInput(f"{option('out', out)} holds files that are no run; give a new or an empty folder.")
        return
    if fresh:
        for inner in (folder, *(RunFolder(path) for path in _inner(out))):
            inner.clear()
        if (out / STATE).is_file():
            shutil.rmtree(out / "candidates", ignore_errors=True)  # of a search that was stopped
        for name in (SWEEP, PICTURE, STATE):
            (out / name).unlink(missing_ok=True)
        _drop_empty(out)
        return
    same = folder.read(SWEEP).get("of") == spec.fingerprint if swept else folder.holds(spec, dataset)
    if swept != sweep or not same:
        how = f"give another folder, or start over with {option('fresh')}"
        raise BadInput(f"{option('out', out)} holds a run with other settings or data; {how}.")


def _inner(out: Path) -> list[Path]:
    """The folders that runs have inside a run's, the innermost first: plain and second trainings, those of a sweep."""
    named = [path for path in (out / BASELINE, out / REFIT, *out.glob("strength_*")) if path.is_dir()]
    return [inner for path in named for inner in (*_inner(path), path)]


def _drop_empty(out: Path) -> None:
    """Take away the inner folders that hold nothing: a later run would be refused for them."""
    for path in _inner(out):
        if not any(path.iterdir()):
            path.rmdir()
