"""Run a Spec that is many trainings: LB with retraining, MOEW, JTT's two trainings.

    spec.search = {"name": "multiplier", "iterations": 15}            LB
    spec.search = {"name": "alpha", "rounds": 20, "per_round": 5, "short": {"epochs": 15}, "retrain": true}   MOEW
    spec.search = {"name": "error", "short": {"epochs": 5}}           JTT

name: a file of runs/search, with the options of its class. short: what differs from the Spec in candidates that
are not trained by the whole schedule. A candidate's loss is its maxFNR on the exemplar set, or with metric="tprd" its
TPRD there. After a kill the search goes on from its file; of the candidates' folders only that of the best so far is
kept.
"""

from __future__ import annotations

import inspect
import logging
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import predicted
from fairweight.methods import Reweighter
from fairweight.methods.label_bias import LabelBias
from fairweight.methods.moew import MOEW
from fairweight.metrics import group_table
from fairweight.runs.build import method_from
from fairweight.runs.folder import METRICS, RUN, SEALED, RunFolder
from fairweight.runs.run import CANDIDATES, Result, run
from fairweight.runs.sealed import SEARCH
from fairweight.runs.search import Candidate, Finished, Search, drive
from fairweight.runs.spec import Spec
from fairweight.training.callbacks import Observer

LOSSES = ("max_fnr", "tprd")  # what a candidate's loss may be, the usual one first
_log = logging.getLogger("fairweight")


def search_into(
    folder: RunFolder,
    spec: Spec,
    dataset: Dataset,
    device: str,
    observers: Sequence[Observer],
    report: Callable[[int, int], None] | None,
) -> None:
    """Train every candidate of the Spec's search, and write the files of the one that the search chose."""
    search = search_for(spec, dataset)
    metric = spec.search.get("metric", LOSSES[0])

    def place(candidate: Candidate) -> Path:
        return folder.path / CANDIDATES / f"{candidate.number:03d}"

    def train_candidate(candidate: Candidate, watching: Sequence[Observer] = ()) -> Result:
        options = {**search.holds, **spec.method_options, **candidate.options}
        short = {} if candidate.full else dict(spec.search.get("short", {}))
        candidate_spec = spec.with_(search={}, method_options=options, **short)
        return run(candidate_spec, place(candidate), device=device, observers=watching, dataset=dataset)

    def result_of(candidate: Candidate) -> dict[str, Any]:
        return _training_result(train_candidate(candidate, observers), dataset, search.wanted(candidate), metric)

    def on_training(finished: Finished, done: int, total: int) -> None:
        for earlier in search.finished:
            if earlier is not search.outcome:
                shutil.rmtree(place(earlier.candidate), ignore_errors=True)
        _log.info("%s: training %d of %d is done", spec.method, done, total)
        if report is not None:
            report(done, total)

    folder.write_run(spec, dataset, {})
    outcome = drive(search, result_of, folder.path / SEARCH, report=on_training)
    # A kill between the last save and the clearing away may have left the outcome's folder unfinished: run looks.
    best = train_candidate(outcome.candidate)
    folder.copy(best.folder, [name for name in SEALED if name not in (METRICS, RUN, SEARCH)])
    folder.write(RUN, {**best.folder.read(RUN), "spec": spec.to_dict(), "fingerprint": spec.fingerprint})
    seconds = sum(float(earlier.result["seconds"]) for earlier in search.finished)
    about = {"trainings": len(search.finished), "chosen": best.folder.path.name}
    folder.write(METRICS, {**best.metrics, "run": {**best.metrics["run"], "seconds": seconds}, "search": about})


def search_for(spec: Spec, dataset: Dataset) -> Search:
    """Make the search that the Spec names."""
    name = str(spec.search.get("name"))
    options = {key: value for key, value in spec.search.items() if key not in ("name", "short", "metric")}
    if spec.search.get("metric", LOSSES[0]) not in LOSSES:
        raise BadInput(f"search.metric is {spec.search['metric']!r}; choose from: {', '.join(LOSSES)}.")
    kind = cast(type[Search], catalog.load("runs.search", name))
    if not _takes(spec.method, kind.gives):
        others = ", ".join(other for other in catalog.names("methods") if _takes(other, kind.gives))
        raise BadInput(
            f"{spec.method} has no option {kind.gives!r}, which the search {name} finds; "
            f"choose {others}, or another search."
        )
    known = list(inspect.signature(kind).parameters)
    if "dimension" in known:
        # of α: one number a label, or one for each number of the embedding
        by_label = spec.method_options.get("embedding", "label") == "label"
        usual = inspect.signature(MOEW).parameters["dimension"].default
        size = len(dataset.label_names) if by_label else int(spec.method_options.get("dimension", usual))
        options.setdefault("dimension", size)
    if "seed" in known:
        options.setdefault("seed", spec.seed)
    if strange := sorted(set(options) - set(known)):
        raise BadInput(f"the search {name} has no option {strange[0]!r}; it has: {', '.join(known)}.")
    return kind(**options)


def search_of(method: str, options: Mapping[str, Any], asked: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A Spec's search for a method: what was asked over the method's own; none where its answer is given."""
    whole = {**cast(type[Reweighter], catalog.load("methods", method)).search, **(asked or {})}
    if not whole:
        return {}
    if "name" not in whole:
        names, such = ", ".join(catalog.names("runs.search")), option("search", "name=multiplier")
        raise BadInput(f"{method} has no search of its own; say which, such as {such}: {names}.")
    gives = cast(type[Search], catalog.load("runs.search", str(whole["name"]))).gives
    if gives in options and asked:
        raise BadInput(f"{gives} is given, and the search {whole['name']} would find it; leave one of them out.")
    return {} if gives in options else whole


def _takes(method: str, option: str) -> bool:
    return option in inspect.signature(catalog.load("methods", method)).parameters


def _training_result(run: Result, dataset: Dataset, wanted: Sequence[str], metric: str) -> dict[str, Any]:
    """What the search asks of a training: loss on the exemplar set, LB's violation, the rows that it got wrong."""
    outputs, labels, groups = run.folder.read_logits("exemplar")
    values: dict[str, Any] = {"seconds": run.metrics["run"]["seconds"]}
    if "loss" in wanted:
        loss = group_table(labels, predicted(outputs), groups, missing="ignore").value(metric)
        values["loss"] = None if math.isnan(loss) else loss
    if "errors" in wanted:
        wrong = _train_predictions(run.folder) != dataset.train.labels.cpu()
        values["errors"] = torch.nonzero(wrong).flatten().tolist()
    if "violation" in wanted:
        method = method_from(run.spec.method, run.spec.method_options, nn.Linear(1, 1), len(dataset.train))
        assert isinstance(method, LabelBias)  # the one method with multipliers
        method.begin(dataset.train, dataset.exemplar)
        on_train = method.measured_on == "train"
        predictions = _train_predictions(run.folder) if on_train else predicted(outputs)
        values["violation"] = method.violation(dataset.train if on_train else dataset.exemplar, predictions).tolist()
    return values


def _train_predictions(folder: RunFolder) -> Tensor:
    return torch.tensor(folder.read_weights()["predicted"].cat.codes.to_numpy(dtype="int64"))  # [N]
