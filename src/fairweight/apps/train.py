"""Train on a user's source, with plain training beside it on the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fairweight.apps.candidates import Tell
from fairweight.apps.deliver import deliver
from fairweight.apps.judge import Goal
from fairweight.apps.judge import TrainRequest as TrainRequest
from fairweight.apps.pair import trained_pair
from fairweight.apps.verdict import Verdict, table_of, verdict_between
from fairweight.data import Dataset
from fairweight.data.groups import JOIN
from fairweight.errors import BadInput, FairweightError, option
from fairweight.metrics import GroupTable
from fairweight.metrics.criterion import Criterion, confusion, criterion, default_criterion
from fairweight.runs.build import LINEAR, TREES, Built, build
from fairweight.runs.defaults import STRENGTH, with_defaults
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.run import Result, finish
from fairweight.runs.run_place import BASELINE, FORML, Watching, remove, run_into
from fairweight.runs.run_search import search_for, search_of
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for

CHOOSING = ("candidates", "seconds", "groups_at_prediction", "seeds")  # options of the comparison of candidates


@dataclass(frozen=True)
class Prepared:
    """Data that was read and what will be trained on it; nothing is written yet."""

    dataset: Dataset
    spec: Spec
    built: Built
    goal: Goal
    request: TrainRequest | None = None  # where the best of many candidates is searched for

    def within(self, spent: float) -> Prepared:
        """The same with less time to search, where a time was given: so much of it is spent."""
        if self.request is None or self.request.seconds is None:
            return self
        return replace(self, request=replace(self.request, seconds=max(1.0, self.request.seconds - spent)))

    @property
    def baseline(self) -> Spec:
        """Plain training, in every other respect the same."""
        return self.spec.with_(method=BASELINE, method_options={}, search={}, weights={}, judge={})


@dataclass(frozen=True)
class Trained:
    """The run that was handed over, and how it differs from plain training."""

    result: Result
    baseline: Result | None = None
    verdict: Verdict | None = None

    @cached_property
    def table(self) -> GroupTable:
        """The table by group on test rows."""
        return table_of(self.result.folder) if self.verdict is None else self.verdict.after

    def to_dict(self) -> dict[str, Any]:
        values = {**_run_values(self.result), "spec": self.result.spec.to_dict()}
        if self.verdict is not None:
            values |= self.verdict.to_dict()
            if self.baseline is not None:
                values |= {"baseline": _run_values(self.baseline), "differences": self.verdict.differences()}
        return values


def _run_values(run: Result) -> dict[str, Any]:
    return {"folder": str(run.folder.path), "reused": run.reused, "metrics": run.metrics}


def prepare(
    request: TrainRequest, *, device: str = "cpu", data_dir: str | Path | None = None, download: bool = False
) -> Prepared:
    """Read the data, choose what was left open, and build it: what would be refused is refused here."""
    training, learner, data = dict(request.training), request.learner, request.data
    of_one_method = training.get("method_options") or training.get("search")
    method = FORML if request.method is None and of_one_method else request.method
    if method is not None:
        linear = ["learner"] if learner == LINEAR else []
        way_out = f"no {option('method')}, none of its options, no {option('trade_off')} and no {option('no_baseline')}"
        where = f"and {method} alone is trained: leave it out, or give {way_out}"
        _refuse_unused([*request.given(*CHOOSING), *linear], where)
    if request.each and "below" not in data.get("groups", {}):  # judged one by one: a crossed cell may be small
        data = {**data, "groups": {**data.get("groups", {}), "below": "keep"}}
    named = FORML if method is None else method
    spec = Spec(request.source, request.label, request.group, data=data, method=named, seed=request.seed)
    dataset = dataset_for(spec, data_dir, download)
    groups = dataset.train.groups
    if method is None and dataset.group_names and (groups is None or not bool((groups >= 0).any())):
        method = FORML  # groups are known of exemplars alone: candidates could not be judged on training rows
    goal = goal_for(dataset, request.criterion, request.bound, request.budget, each=request.each)
    if learner is not None and (learner == "mlp" or ":" in learner):
        training["network"] = {**training.get("network", {}), "name": learner}
    if (name := training.get("network", {}).get("name")) in (TREES, LINEAR):
        raise BadInput(f"{option('network.name', name)} is no network; give {option('learner', name)} instead.")
    own_network = ":" in str(training.get("network", {}).get("name", ""))
    search_request = None
    if method is None and dataset.kind == "table" and not own_network:
        learner = learner or ("mlp" if training.get("network") else None)
        search_request = replace(request, learner=learner, training=training)
        spec = spec.with_(method=BASELINE)
    else:
        if request.method is None and not of_one_method:
            unused = [name for name in request.given(*CHOOSING) if method or name != "groups_at_prediction"]
            where = "which takes a table whose train rows have groups, and no network of your own: leave it out"
            _refuse_unused(unused, where)
        if learner == TREES:
            training["network"] = {"name": TREES}
            training.setdefault("epochs", 100)
        training = with_objective(spec.method, training, goal, dataset)
    judge: dict[str, Any] = {}
    if method is None:
        judge = request.given("bound", "budget", "learner", "each", *CHOOSING) | {"criterion": goal.criterion.name}
    spec = with_defaults(spec, dataset, training, device)
    spec = spec.with_(search=search_of(spec.method, spec.method_options, training.get("search")), judge=judge)
    built = build(spec.with_(judge={}), dataset, device)
    if spec.search:
        search_for(spec, dataset)
    return Prepared(dataset, spec, built, goal, search_request)


def _refuse_unused(options: Sequence[str], where: str) -> None:
    """Refuse options of the choice among candidates where nothing is compared."""
    if options:
        raise BadInput(f"{option(options[0])} has a say only where candidates are compared, {where}.")


def goal_for(
    dataset: Dataset,
    name: str | None = None,
    bound: float | None = None,
    budget: float | None = None,
    each: bool = False,
) -> Goal:
    """What is meant by fair on this data, and what it may cost."""
    classes, groups = len(dataset.label_names), bool(dataset.group_names)
    fair = default_criterion(classes, groups=groups) if name is None else criterion(name)
    if each:
        fair = fair.each(*_side_by_side(dataset))
    _check_comparable(fair.check(groups=groups), dataset)
    return Goal(fair, bound, budget)


def _check_comparable(fair: Criterion, dataset: Dataset) -> None:
    """Refuse groups that have no label in common that the criterion could compare them on."""
    labels, groups = dataset.train.labels.cpu().numpy(), dataset.train.groups
    if not dataset.group_names or groups is None or not bool((groups >= 0).any()):
        return
    right = confusion(labels, labels, groups.cpu().numpy(), classes=len(dataset.label_names))
    if math.isnan(fair.gap_of(right)):
        named = ",".join(dataset.preprocessing.meaning.group)
        raise BadInput(
            f"the {fair.measure} cannot be estimated: fewer than two groups of {named!r} have rows of the label it "
            f"compares; choose another {option('criterion')}, {option('labels.positive')} or {option('group')}."
        )


def _side_by_side(dataset: Dataset) -> tuple[tuple[str, ...], list[list[str]]]:
    """The sensitive columns, and the value that each crossed group has in them."""
    columns = dataset.preprocessing.meaning.group
    if len(columns) < 2:
        raise BadInput(f"{option('each')} sets columns side by side; name several with {option('group', 'A,B')}.")
    values = [name.split(JOIN) for name in dataset.group_names]
    if strange := [JOIN.join(row) for row in values if len(row) != len(columns)]:
        raise BadInput(
            f"{option('each')}: the group {strange[0]!r} cannot be told apart by column; keep small groups with "
            f"{option('groups.below', 'keep')} and rename values that hold {JOIN!r}."
        )
    return columns, values


def with_objective(method: str, training: Mapping[str, Any], goal: Goal, dataset: Dataset) -> dict[str, Any]:
    """FORML's objective for a criterion that is not the usual one, unless another was asked for."""
    classes, groups = len(dataset.label_names), bool(dataset.group_names)
    usual = goal.criterion.name == default_criterion(classes, groups=groups).name
    if usual or method != FORML or "objective" in training.get("method_options", {}):
        return dict(training)
    objective = f"mean + {STRENGTH:g} * {goal.criterion.objective(classes, groups=groups)}"
    return {**training, "method_options": {"objective": objective, **training.get("method_options", {})}}


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
    if spec.judge:
        return _train_best(prepared, Path(out), device, watching, tell)
    result = run_into(spec, out, dataset, device, watching, prepared.built)
    if not baseline or spec.method == BASELINE:
        return Trained(result)
    plain = run_into(prepared.baseline, Path(out) / BASELINE, dataset, device, watching)
    verdict = verdict_between(result, plain, dataset, prepared.goal)
    metrics = {**result.metrics, **verdict.to_dict()}
    if metrics != result.metrics:  # a finished run that is found again stays as it is
        result.folder.write(METRICS, metrics)
    return Trained(replace(result, metrics=result.folder.read(METRICS)), plain, verdict)


def _train_best(prepared: Prepared, out: Path, device: str, watching: Watching, tell: Tell | None) -> Trained:
    """Take the finished run that is there, or search for the best of many."""
    spec, dataset, goal, folder = prepared.spec, prepared.dataset, prepared.goal, RunFolder(out)
    plain: Result | None
    if folder.finished and folder.holds(spec, dataset):
        folder.verify_all()
        result, plain_folder = _finished_run(folder), RunFolder(out / BASELINE)
        plain = _finished_run(plain_folder) if plain_folder.finished else None
        verdict = verdict_between(result, plain or result, dataset, goal, result.metrics["judged"])
        return Trained(result, plain, verdict)
    existed = next((p for p in [out, *out.parents] if p.exists()), out)
    try:
        if prepared.request is None:
            result, plain, judged = trained_pair(prepared, folder, device, watching)
        else:
            result, plain, judged = deliver(prepared, prepared.request, out, device=device, tell=tell)
        verdict = verdict_between(result, plain or result, dataset, goal, judged)
        metrics = {**result.metrics, **verdict.after.to_dict(), **verdict.to_dict(), "judged": judged}
        return Trained(finish(result, metrics), plain, verdict)
    except (FairweightError, OSError):
        pair_began = prepared.request is None and any(path.is_dir() for path in out.glob("*"))  # it goes on from there
        if out.is_dir() and not folder.finished and not pair_began:
            remove(out, existed)
        raise


def _finished_run(folder: RunFolder) -> Result:
    return Result(folder.read_spec(), folder, folder.read(METRICS), reused=True)
