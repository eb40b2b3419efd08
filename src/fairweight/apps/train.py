"""Train on a user's source, with plain training beside it on the same rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairweight.apps.before_after import Differences, table_of
from fairweight.apps.candidates import FAMILIES, Asked, Tell
from fairweight.apps.deliver import deliver
from fairweight.apps.judge import BUDGET, Rows, Wish, judged
from fairweight.apps.verdict import Verdict, fields_of
from fairweight.data import Dataset
from fairweight.errors import BadInput, FairweightError, MissingData, NoSpace, option
from fairweight.metagradient.passes import predicted
from fairweight.metrics import GroupTable
from fairweight.metrics.criterion import Criterion, criterion, default_criterion
from fairweight.runs.build import Built, build
from fairweight.runs.defaults import STRENGTH, with_defaults
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.run import Result, run
from fairweight.runs.run_search import CANDIDATES, STATE, search_for, search_of, searched
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer
from fairweight.training.lock import FILE as LOCK

FORML = "forml"  # what is trained where something is said of a method, and on images
BASELINE = "uniform"  # plain training, and the name of its folder inside the method's
REFIT = "refit"  # a second training with the weights of the first, and the name of its folder inside
SWEEP, PICTURE = "trade_off.json", "trade_off.html"  # of a sweep of strength
# What to show while a run is trained: a title -> observers.
Watching = Callable[[str], Sequence[Observer]]


@dataclass(frozen=True)
class Wanted:
    """What the user said; everything else is chosen by the data."""

    source: str
    label: str | None = None
    group: str | None = None
    method: str | None = None  # None: the best of many, judged beside plain training
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)  # options of data.load, as plain values
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of a Spec
    criterion: str | None = None  # None: by the data
    bound: float | None = None  # largest gap, in points
    budget: float | None = None  # largest loss of accuracy, in points
    learner: str | None = None
    candidates: tuple[str, ...] | None = None
    seconds: float | None = None
    groups_at_prediction: bool = False


@dataclass(frozen=True)
class Prepared:
    """Data that was read and what will be trained on it; nothing is written yet."""

    dataset: Dataset
    spec: Spec
    built: Built
    wish: Wish | None = None
    asked: Asked | None = None  # of a table: the best of many is searched for

    @property
    def criterion(self) -> Criterion:
        """What is meant by fair."""
        if self.wish is not None:
            return self.wish.criterion
        classes, groups = len(self.dataset.label_names), bool(self.dataset.group_names)
        return default_criterion(classes, groups=groups)

    @property
    def parameters(self) -> int:
        """Number of the network's parameters."""
        return self.built.parameters

    @property
    def baseline(self) -> Spec:
        """Plain training, in every other respect the same."""
        return self.spec.with_(method=BASELINE, method_options={}, search={}, weights={}, judge={})


@dataclass(frozen=True)
class Trained:
    """The method's run, its table on test, and how it differs from plain training."""

    result: Result
    table: GroupTable
    baseline: Result | None
    differences: Differences | None
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        found = {**_about(self.result), "spec": self.result.spec.to_dict(), **fields_of(self.verdict)}
        if self.baseline is not None and self.differences is not None:
            found |= {"baseline": _about(self.baseline), "differences": self.differences.to_dict()}
        return found


def _about(result: Result) -> dict[str, Any]:
    return {"folder": str(result.folder.path), "reused": result.reused, "metrics": result.metrics}


def prepare(
    wanted: Wanted, *, device: str = "cpu", data_dir: str | Path | None = None, download: bool = False
) -> Prepared:
    """Read the data, choose what was left open, and build it: what would be refused is refused here."""
    method = FORML if wanted.method is None and names_method(wanted.training) else wanted.method
    named = FORML if method is None else method
    first = Spec(wanted.source, wanted.label, wanted.group, data=wanted.data, method=named, seed=wanted.seed)
    dataset = dataset_for(first, data_dir, download)
    groups = dataset.train.groups
    if method is None and dataset.group_names and (groups is None or not bool((groups >= 0).any())):
        method = FORML  # groups are known of exemplars alone: candidates could not be judged on training rows
    wish = wish_for(dataset, wanted.criterion, wanted.bound, wanted.budget)
    training = dict(wanted.training)
    table = dataset.kind == "table" and ":" not in (wanted.learner or "")
    if wanted.learner is not None and (wanted.learner == "mlp" or ":" in wanted.learner):
        training["network"] = {**training.get("network", {}), "name": wanted.learner}
    own = ":" in str(training.get("network", {}).get("name", ""))
    asked = None
    if method is None and table and not own:
        learner = wanted.learner or ("mlp" if training.get("network") else None)
        families = tuple(FAMILIES) if wanted.candidates is None else ("plain", *wanted.candidates)
        asked = Asked(wish, learner, families, wanted.seconds, wanted.groups_at_prediction, training)
    elif wanted.learner == "trees":
        training["network"] = {"name": "trees"}
        training.setdefault("epochs", 100)
    judge = {} if method is not None else _judging(wanted, wish)
    if method is None and table:
        first = first.with_(method=BASELINE)
    elif wish.criterion.name != default_criterion(len(dataset.label_names), groups=bool(dataset.group_names)).name:
        training = _with_objective(first.method, training, wish.criterion, dataset)
    spec = with_defaults(first, dataset, training, device)
    spec = spec.with_(search=search_of(spec.method, spec.method_options, training.get("search")), judge=judge)
    built = build(spec.with_(judge={}), dataset, device)
    if spec.search:
        search_for(spec, dataset)
    return Prepared(dataset, spec, built, wish, asked)


def names_method(training: Mapping[str, Any]) -> bool:
    """True if what was said speaks of one method: its options, its objective, or a search over it."""
    return bool(training.get("method_options") or training.get("search"))


def wish_for(dataset: Dataset, name: str | None, bound: float | None, budget: float | None) -> Wish:
    """What is meant by fair on this data, and what it may cost."""
    classes, groups = len(dataset.label_names), bool(dataset.group_names)
    fair = default_criterion(classes, groups=groups) if name is None else criterion(name)
    return Wish(fair.check(classes, groups), bound, budget)


def _judging(wanted: Wanted, wish: Wish) -> dict[str, Any]:
    """What determines the choice, as plain values."""
    said = {
        "bound": wish.bound,
        "budget": wish.budget,
        "learner": wanted.learner,
        "candidates": None if wanted.candidates is None else list(wanted.candidates),
        "seconds": wanted.seconds,
        "groups_at_prediction": wanted.groups_at_prediction or None,
    }
    return {"criterion": wish.criterion.name, **{key: value for key, value in said.items() if value is not None}}


def _with_objective(method: str, training: Mapping[str, Any], fair: Criterion, dataset: Dataset) -> dict[str, Any]:
    """FORML's objective for a criterion that is not the usual one, unless another was asked for."""
    if method != FORML or "objective" in training.get("method_options", {}):
        return dict(training)
    term = fair.objective(len(dataset.label_names), groups=bool(dataset.group_names))
    options = {"objective": f"mean + {STRENGTH:g} * {term}", **training.get("method_options", {})}
    return {**training, "method_options": options}


def train(
    prepared: Prepared,
    out: str | Path,
    *,
    device: str = "cpu",
    baseline: bool = True,
    watching: Watching = lambda title: (),
    tell: Tell | None = None,
) -> Trained:
    """Train into the folder `out` and plain training into a folder inside it, and compare them.

    Where no method was named, what is written is the best of many on rows that they were not trained on, or plain
    training where nothing beats it.
    """
    spec, dataset = prepared.spec, prepared.dataset
    if prepared.asked is not None:
        return _searched(prepared, Path(out), device, tell)
    method = spec.with_(judge={}) if spec.judge else spec
    done = run_into(method, out, dataset, device, watching, prepared.built)
    table = table_of(done.folder, dataset)
    if not baseline or spec.method == BASELINE:
        return Trained(done, table, None, None)
    plain = run_into(prepared.baseline, Path(out) / BASELINE, dataset, device, watching)
    before = table_of(plain.folder, dataset)
    kept_plain = bool(spec.judge) and not _beats(done, plain, prepared)
    if kept_plain:
        done = _adopted(done, plain)
        table = before
    differences = Differences(spec.title, before, table, dataset)
    verdict = verdict_between(prepared, done, before, table, kept_plain)
    whole = {**done.metrics, **verdict.to_dict()}
    if whole != done.metrics:  # a finished run that is found again stays as it is
        done.folder.write(METRICS, whole)
    done = replace(done, metrics=done.folder.read(METRICS))
    return Trained(done, table, plain, differences, verdict)


def verdict_between(
    prepared: Prepared, done: Result, before: GroupTable, after: GroupTable, kept_plain: bool = False
) -> Verdict:
    """The verdict on a method's run beside plain training."""
    run = done.metrics.get("run", {})
    wish = prepared.wish
    budget = wish.budget if wish is not None and wish.budget is not None else BUDGET
    chosen = BASELINE if kept_plain else done.spec.title
    kept = run.get("best_epoch") or run.get("epochs")
    return Verdict(prepared.criterion, before, after, chosen, "plain training", kept, kept_plain, budget)


def _beats(done: Result, plain: Result, prepared: Prepared) -> bool:
    """True if the method is to be preferred by the held-out part; without one there is no evidence for it."""
    try:
        found, labels, groups = done.folder.read_logits("validation")
    except MissingData:
        return False
    other, _, _ = plain.folder.read_logits("validation")
    known = None if groups is None or not prepared.dataset.group_names else groups.numpy()
    rows = Rows(labels.numpy(), known, len(prepared.dataset.label_names))
    wish = prepared.wish or Wish(prepared.criterion)
    one = judged(rows, predicted(other).numpy(), predicted(found).numpy(), wish, prepared.spec.seed)
    return one.allowed


def _adopted(done: Result, plain: Result) -> Result:
    """Put plain training's files into the run's folder."""
    about = {**plain.folder.read(RUN), "fingerprint": done.folder.read(RUN)["fingerprint"]}
    metrics = plain.folder.read(METRICS)
    (done.folder.path / MANIFEST).unlink(missing_ok=True)  # sealed again when all is there
    for path in plain.folder.path.iterdir():
        if path.is_file() and path.name not in (METRICS, RUN, MANIFEST) and not path.name.startswith("."):
            shutil.copy2(path, done.folder.path / path.name)
    done.folder.write(RUN, about)
    done.folder.write(METRICS, metrics)
    done.folder.seal()
    return Result(plain.spec, done.folder, done.folder.read(METRICS), reused=False)


def _searched(prepared: Prepared, out: Path, device: str, tell: Tell | None) -> Trained:
    assert prepared.asked is not None
    spec, dataset, folder = prepared.spec, prepared.dataset, RunFolder(out)
    if folder.finished and folder.holds(spec, dataset):
        metrics = folder.read(METRICS)
        done: Result = Result(folder.read_spec(), folder, metrics, reused=True)
        beside = RunFolder(out / BASELINE)
        plain = Result(beside.read_spec(), beside, beside.read(METRICS), reused=True) if beside.finished else None
        after = table_of(folder, dataset)
        before = after if plain is None else table_of(beside, dataset)
        verdict = Verdict(
            prepared.criterion, before, after, str(metrics["chosen"]), str(metrics["judged"]["reference"]),
            metrics["kept_epoch"], plain is None, BUDGET if spec.judge.get("budget") is None else spec.judge["budget"],
        )  # fmt: skip
    else:
        existed = next((p for p in [out, *out.parents] if p.exists()), out)
        try:
            done, plain, verdict = deliver(spec, prepared.asked, dataset, out, device=device, tell=tell)
        except (FairweightError, OSError):
            if out.is_dir() and not RunFolder(out).finished:
                _remove(out, existed)
            raise
    differences = None if plain is None else Differences(verdict.chosen, verdict.before, verdict.after, dataset)
    return Trained(done, verdict.after, plain, differences, verdict)


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
        _clear(path)
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
    for path in (out / BASELINE, out / REFIT, out / CANDIDATES, *out.glob("strength_*")):
        if path.is_symlink():  # what is written or cleared there would lie elsewhere
            raise BadInput(f"{path} is a link; delete it, or give another {option('out')}.")
    for inside in (folder, *(RunFolder(path) for path in _inner(out))):
        inside.tidy(SWEEP, PICTURE, STATE)  # what a kill in the first write of all has left
    swept = (out / SWEEP).is_file()
    if not folder.started and not swept:
        _drop_empty(out)  # what an earlier sweep has left
        if any(path.name != LOCK for path in out.iterdir()):
            raise BadInput(f"{option('out', out)} holds files that are no run; give a new or an empty folder.")
        return
    _check_run(out, folder, spec, dataset, sweep, fresh)


def check_place(out: Path, flag: str = "out") -> None:
    """Refuse a place where no folder can be written; flag: the option that names it."""
    nearest = next(path for path in [out, *out.absolute().parents] if path.exists())
    if not nearest.is_dir():
        raise BadInput(
            f"{option(flag, out)}: {nearest.name} is a file; give the folder that the run is to be written into."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise NoSpace(f"{option(flag, out)}: {nearest} may not be written to; give another folder.")


def _check_run(out: Path, folder: RunFolder, spec: Spec, dataset: Dataset, sweep: bool, fresh: bool) -> None:
    swept = (out / SWEEP).is_file()
    if fresh:
        _clear(out)
        return
    same = folder.read(SWEEP).get("of") == spec.fingerprint if swept else folder.holds(spec, dataset)
    if swept != sweep or not same:
        how = f"give another folder, or start over with {option('fresh')}"
        raise BadInput(f"{option('out', out)} holds a run with other settings or data; {how}.")


def _clear(out: Path) -> None:
    """Delete what runs have written here and inside, and nothing else; last what says that there is one."""
    for inner in (RunFolder(path) for path in _inner(out)):
        inner.clear()
    for candidate in (out / CANDIDATES).glob("[0-9][0-9][0-9]"):  # of a search that was stopped
        RunFolder(candidate).clear()
    _drop_empty(out)
    for name in (PICTURE, STATE):
        (out / name).unlink(missing_ok=True)
    RunFolder(out).clear()
    (out / SWEEP).unlink(missing_ok=True)


def _inner(out: Path) -> list[Path]:
    """Folders of the runs inside a run's, the innermost first: plain and second trainings, those of a sweep."""
    named = [path for path in (out / BASELINE, out / REFIT, *out.glob("strength_*")) if path.is_dir()]
    return [inner for path in named for inner in (*_inner(path), path)]


def _drop_empty(out: Path) -> None:
    for path in (*_inner(out), *(out / CANDIDATES).glob("*"), out / CANDIDATES):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
