"""Runs judged on validation rows, one of which is kept: plain training and FORML on images, or a sweep of strength."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairweight.apps.judge import Floats, Goal, Rows, judged_together
from fairweight.apps.second_stage import stages
from fairweight.apps.verdict import PLAIN
from fairweight.constraints import plain_seed
from fairweight.data import Dataset
from fairweight.errors import MissingData
from fairweight.runs.folder import METRICS, RUN, SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, predictions_by, probabilities
from fairweight.runs.run_place import BASELINE, FORML, Watching, run_into
from fairweight.runs.shift import shifted
from fairweight.types import Batch

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared


class Model(NamedTuple):
    """A run, or a run with a second stage, on validation rows."""

    title: str
    run: str
    chances: Floats  # [N, K]
    shift: Floats | None = None  # [G, K], or [1, K] for everybody: added to the run's logits


class Choice(NamedTuple):
    """The run to take, what to add to its logits, and what all were judged by."""

    run: str
    shift: Floats | None
    judged: dict[str, Any]


HALVES = 2  # of the validation rows: each is decided by what was found on the other


def trained_pair(
    prepared: Prepared, folder: RunFolder, device: str, watching: Watching
) -> tuple[Result, Result, dict[str, Any]]:
    """Train both into folders inside, and put the better one, with its second stage, into the folder itself.

    Return it but for its numbers, plain training, and what both were judged by.
    """
    spec, dataset = prepared.spec, prepared.dataset
    folder.make()
    if not folder.holds(spec, dataset):
        folder.write_run(spec, dataset, provenance(device))  # a run that is stopped goes on from here
    forml = run_into(spec.with_(judge={}), folder.path / FORML, dataset, device, watching, prepared.built)
    plain = run_into(prepared.baseline, folder.path / BASELINE, dataset, device, watching)
    by_group = bool(spec.judge.get("groups_at_prediction"))
    runs = {PLAIN: plain.folder, FORML: forml.folder}
    chosen, shift, judged = best_of(runs, prepared.goal, dataset, spec.seed, by_group)
    winner = plain if chosen == PLAIN else forml
    adopt(folder, winner)
    spec_kept = winner.spec if shift is None else winner.spec.with_(judge={"shift": shift.tolist()})
    folder.write(RUN, {**winner.folder.read(RUN), "spec": spec_kept.to_dict(), "fingerprint": spec.fingerprint})
    if shift is not None:
        _write_shifted(folder, winner, shift.tolist(), dataset)
    return Result(spec_kept, folder, winner.metrics, reused=False), plain, judged


def best_of(
    runs: Mapping[str, RunFolder],
    goal: Goal,
    dataset: Dataset,
    seed: int,
    by_group: bool = False,
    *,
    alone: bool = False,
) -> Choice:
    """Judge the runs, plain training first, and their second stages; without validation rows plain training stays.

    by_group: thresholds by group are allowed. alone: no second stages, and the smallest gap wins even if chance may
    explain it.
    """
    models: list[Model] = []
    plain = next(iter(runs))
    try:
        for name, folder in runs.items():
            outputs, labels, codes = folder.read_logits("validation")
            groups = codes.numpy() if dataset.group_names and codes is not None else None
            rows = Rows(labels.numpy(), groups, len(dataset.label_names))
            chances = probabilities(outputs.double()).numpy()
            models.append(Model(name, name, chances))
            if not alone:
                fold = np.random.default_rng(plain_seed(seed)).permutation(len(rows.labels)) % HALVES
                for stage in stages(chances, rows, goal, fold, range(HALVES), by_group):
                    models.append(Model(f"{name} + {stage.name}", name, stage.chances, stage.shift))
    except MissingData:
        note = "There are no validation rows to judge FORML on, so plain training stays."
        nothing: dict[str, Any] = {"reference": plain, "chosen": plain, "candidates": [], "notes": [note]}
        return Choice(plain, None, nothing)
    predictions = [model.chances.argmax(axis=1) for model in models]
    judgements, place, why = judged_together(rows, predictions[0], predictions, goal, seed, sure=not alone)
    best = models[place or 0]
    candidates = [{"name": m.title, "learner": "network", **j.to_dict()}
                  for m, j in zip(models, judgements, strict=True)]  # fmt: skip
    about = {"reference": plain, "chosen": best.title, "rows": len(rows.labels), "candidates": candidates, "notes": []}
    return Choice(best.run, best.shift, about | ({"why": why} if best.title == plain else {}))


def adopt(folder: RunFolder, winner: Result) -> None:
    """Put the files of a run that won into the folder; metrics and seal are the caller's."""
    folder.drop(MANIFEST, METRICS)
    folder.copy(winner.folder, [name for name in SEALED if name != METRICS])


def _write_shifted(folder: RunFolder, winner: Result, shift: list[list[float]], dataset: Dataset) -> None:
    """Write the decisions of a second stage in place of the run's own."""
    outputs = {}
    for name in ("test", "exemplar", "validation", "train"):
        with suppress(MissingData):  # there are no validation rows, or train is too large for its logits to be kept
            logits, labels, groups = winner.folder.read_logits(name)
            outputs[name] = Batch(labels, labels, groups), shifted(logits, groups, shift)
    folder.write_logits(outputs)
    folder.write_predictions(dataset, predictions_by(outputs["test"][1], dataset.test.labels))
