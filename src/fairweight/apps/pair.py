"""Two trainings, plain and FORML, with decisions that cost no other training: judged on validation, one is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairweight.apps.judge import NOTHING, Floats, Rows, Score, Wish, choose, judged, why_plain
from fairweight.apps.second_stage import stages
from fairweight.apps.verdict import PLAIN, Verdict, verdict_between
from fairweight.constraints import plain_seed
from fairweight.data import Dataset
from fairweight.errors import MissingData
from fairweight.runs.build import Built, network_for
from fairweight.runs.folder import METRICS, RUN, SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, final_predictions, placed, probabilities
from fairweight.runs.run_place import BASELINE, FORML, Watching, run_into
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec

HALVES = 2  # of the validation rows: each is decided by what was found on the other


@dataclass(frozen=True)
class Choice:
    """The run to hand over, what is added to its logits, and what all were judged by."""

    run: str
    title: str
    shift: Floats | None  # [G, K], or [1, K] for everybody
    judged: Mapping[str, Any]


def trained_pair(
    spec: Spec, baseline: Spec, wish: Wish, dataset: Dataset, built: Built, folder: RunFolder, device: str,
    watching: Watching,
) -> tuple[Result, Result, Verdict]:  # fmt: skip
    """Train both into folders inside, and put the better one, with its second stage, into the folder itself."""
    folder.make()
    if not folder.holds(spec, dataset):
        folder.write_run(spec, dataset, provenance(device))  # a run that is stopped goes on from here
    done = run_into(spec.with_(judge={}), folder.path / FORML, dataset, device, watching, built)
    plain = run_into(baseline, folder.path / BASELINE, dataset, device, watching)
    grouped, by_group = bool(dataset.group_names), bool(spec.judge.get("groups_at_prediction"))
    runs = {"plain": plain.folder, FORML: done.folder}
    choice = best_of_pair(
        runs, wish, len(dataset.label_names), groups=grouped, groups_at_prediction=by_group, seed=spec.seed
    )
    won = plain if choice.run == "plain" else done
    adopt(folder, won)
    final = won.spec if choice.shift is None else won.spec.with_(judge={"shift": choice.shift.tolist()})
    folder.write(RUN, {**won.folder.read(RUN), "spec": final.to_dict(), "fingerprint": spec.fingerprint})
    if choice.shift is not None:
        _shift(folder, won, choice.shift.tolist(), dataset, device)
    ended = Result(final, folder, won.metrics, reused=False)
    kept = {"chosen": choice.title, "kept_plain": choice.title == PLAIN, "why": choice.judged.get("why", NOTHING)}
    verdict = verdict_between(ended, plain, dataset, wish, **kept)
    folder.write(METRICS, {**won.metrics, **verdict.after.to_dict(), **verdict.to_dict(), "judged": choice.judged})
    folder.seal()
    return replace(ended, metrics=folder.read(METRICS)), plain, verdict


def best_of_pair(
    runs: Mapping[str, RunFolder], wish: Wish, classes: int, *, groups: bool, groups_at_prediction: bool, seed: int
) -> Choice:
    """Judge the runs, plain training first, and their second stages; without validation rows plain training stays."""
    found: list[tuple[str, str, Floats, Floats | None]] = []  # title, run, chances, shift
    try:
        for name, folder in runs.items():
            rows, chances = on_validation(folder, classes, groups=groups)
            title = PLAIN if name == "plain" else name
            half = np.random.default_rng(plain_seed(seed)).permutation(len(rows.labels)) % HALVES
            found.append((title, name, chances, None))
            made = stages(chances, rows, wish, half, range(HALVES), groups_at_prediction)
            found += [(f"{title} + {stage}", name, moved, shift) for stage, moved, shift in made]
    except MissingData:
        note = "There are no validation rows to judge FORML on, so plain training stays."
        nothing: dict[str, Any] = {"reference": PLAIN, "chosen": PLAIN, "candidates": [], "notes": [note]}
        return Choice("plain", PLAIN, None, nothing)
    plain = found[0][2].argmax(axis=1)
    judgements = [judged(rows, plain, chances.argmax(axis=1), wish, seed) for _, _, chances, _ in found]
    before = Score.of(rows, plain, wish.criterion)
    title, run, _, shift = found[choose(before, judgements, wish) or 0]
    told = [{"name": one[0], "learner": "network", **j.to_dict()} for one, j in zip(found, judgements, strict=True)]
    about = {"reference": PLAIN, "chosen": title, "rows": len(rows.labels), "candidates": told, "notes": []}
    about |= {"why": why_plain(before, wish)} if title == PLAIN else {}
    return Choice(run, title, shift, about)


def on_validation(folder: RunFolder, classes: int, *, groups: bool) -> tuple[Rows, Floats]:
    """The validation rows of a run, and its chances there."""
    said, labels, codes = folder.read_logits("validation")
    rows = Rows(labels.numpy(), codes.numpy() if groups and codes is not None else None, classes)
    return rows, probabilities(said.double()).numpy()


def adopt(folder: RunFolder, won: Result) -> None:
    """Put the files of a run that won into the folder; metrics and seal are the caller's."""
    for name in (MANIFEST, METRICS):
        (folder.path / name).unlink(missing_ok=True)
    folder.copy(won.folder, [name for name in SEALED if name != METRICS])


def _shift(folder: RunFolder, won: Result, up: list[list[float]], dataset: Dataset, device: str) -> None:
    """Write the decisions of a second stage in place of the run's own."""
    parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
    folder.write_logits(
        {
            name: (part, shifted(won.folder.read_logits(name)[0], part.groups, up))
            for name, part in parts.items()
            if part is not None
        }
    )
    model = network_for(dataset.preprocessing, won.spec.network)
    won.folder.read_model(model)
    folder.write_predictions(dataset, final_predictions(model.to(device), placed(dataset.test, device), up))
