"""Runs judged on validation rows, one of which is kept: plain training and FORML on images, or a sweep of strength."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairweight.apps.judge import Floats, Rows, Wish, judged_together
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

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared

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
    done = run_into(spec.with_(judge={}), folder.path / FORML, dataset, device, watching, prepared.built)
    plain = run_into(prepared.baseline, folder.path / BASELINE, dataset, device, watching)
    by_group = bool(spec.judge.get("groups_at_prediction"))
    runs = {PLAIN: plain.folder, FORML: done.folder}
    chosen, shift, judged = best_of(runs, prepared.wish, dataset, spec.seed, by_group)
    won = plain if chosen == PLAIN else done
    adopt(folder, won)
    final = won.spec if shift is None else won.spec.with_(judge={"shift": shift.tolist()})
    folder.write(RUN, {**won.folder.read(RUN), "spec": final.to_dict(), "fingerprint": spec.fingerprint})
    if shift is not None:
        _shift(folder, won, shift.tolist(), dataset)
    return Result(final, folder, won.metrics, reused=False), plain, judged


def best_of(
    runs: Mapping[str, RunFolder],
    wish: Wish,
    dataset: Dataset,
    seed: int,
    by_group: bool = False,
    *,
    alone: bool = False,
) -> tuple[str, Floats | None, dict[str, Any]]:
    """Judge the runs, plain training first, and their second stages; without validation rows plain training stays.

    by_group: thresholds by group are allowed. alone: no second stages, and the smallest gap wins even if chance may
    explain it. Return the run to take, what to add to its logits, [G, K] or [1, K] for everybody, and what all were
    judged by.
    """
    found: list[tuple[str, str, Floats, Floats | None]] = []  # title, run, chances, shift
    plain = next(iter(runs))
    try:
        for name, folder in runs.items():
            said, labels, codes = folder.read_logits("validation")
            groups = codes.numpy() if dataset.group_names and codes is not None else None
            rows, chances = Rows(labels.numpy(), groups, len(dataset.label_names)), probabilities(said.double()).numpy()
            found.append((name, name, chances, None))
            if not alone:
                half = np.random.default_rng(plain_seed(seed)).permutation(len(rows.labels)) % HALVES
                made = stages(chances, rows, wish, half, range(HALVES), by_group)
                found += [(f"{name} + {stage}", name, moved, shift) for stage, moved, shift in made]
    except MissingData:
        note = "There are no validation rows to judge FORML on, so plain training stays."
        nothing: dict[str, Any] = {"reference": plain, "chosen": plain, "candidates": [], "notes": [note]}
        return plain, None, nothing
    every = [chances.argmax(axis=1) for _, _, chances, _ in found]
    judgements, place, why = judged_together(rows, every[0], every, wish, seed, sure=not alone)
    title, run, _, shift = found[place or 0]
    told = [{"name": one[0], "learner": "network", **j.to_dict()} for one, j in zip(found, judgements, strict=True)]
    about = {"reference": plain, "chosen": title, "rows": len(rows.labels), "candidates": told, "notes": []}
    return run, shift, about | ({"why": why} if title == plain else {})


def adopt(folder: RunFolder, won: Result) -> None:
    """Put the files of a run that won into the folder; metrics and seal are the caller's."""
    folder.drop(MANIFEST, METRICS)
    folder.copy(won.folder, [name for name in SEALED if name != METRICS])


def _shift(folder: RunFolder, won: Result, up: list[list[float]], dataset: Dataset) -> None:
    """Write the decisions of a second stage in place of the run's own."""
    parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
    said = {
        name: (part, shifted(won.folder.read_logits(name)[0], part.groups, up))
        for name, part in parts.items()
        if part is not None
    }
    folder.write_logits(said)
    folder.write_predictions(dataset, predictions_by(said["test"][1], dataset.test.labels))
