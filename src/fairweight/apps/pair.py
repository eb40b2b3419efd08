"""Two trainings, plain and FORML, with decisions that cost no other training: judged on validation, one is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairweight.apps.candidates import BIASES
from fairweight.apps.judge import Rows, Score, Wish, choose, judged
from fairweight.apps.second_stage import Floats, even_recalls, moved, thresholds
from fairweight.apps.verdict import PLAIN, Verdict, by_group, calibration_of, verdict_between
from fairweight.data import Dataset
from fairweight.errors import MissingData
from fairweight.metagradient.passes import predicted
from fairweight.runs.build import Built, network_for
from fairweight.runs.folder import LOGITS, METRICS, PREDICTIONS, RUN, SEALED, RunFolder
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
    spec: Spec,
    baseline: Spec,
    wish: Wish,
    dataset: Dataset,
    built: Built,
    folder: RunFolder,
    device: str,
    watching: Watching,
) -> tuple[Result, Result, Verdict]:
    """Train both into folders inside, and put the better one, with its second stage, into the folder itself."""
    folder.make()
    if not folder.holds(spec, dataset):
        folder.write_run(spec, dataset, provenance(device))  # a run that is stopped goes on from here
    done = run_into(spec.with_(judge={}), folder.path / FORML, dataset, device, watching, built)
    plain = run_into(baseline, folder.path / BASELINE, dataset, device, watching)
    choice = best_of_pair(
        {"plain": plain.folder, FORML: done.folder},
        wish,
        len(dataset.label_names),
        groups=bool(dataset.group_names),
        groups_at_prediction=bool(spec.judge.get("groups_at_prediction")),
        seed=spec.seed,
    )
    won = plain if choice.run == "plain" else done
    final, meaning = adopt(folder, won, spec, choice.shift, dataset, device), dataset.preprocessing.meaning
    logits, labels, groups = won.folder.read_logits("test")
    logits = shifted(logits, groups, final.spec.judge.get("shift"))
    said = {
        "chosen": choice.title,
        "kept_plain": choice.title == PLAIN,
        "after": by_group(meaning, labels, predicted(logits), groups),
        "calibration": {
            "before": calibration_of(meaning, *plain.folder.read_logits("test")),
            "after": calibration_of(meaning, logits, labels, groups),
        },
    }
    verdict = verdict_between(won, plain, dataset, wish.criterion, wish, **said)
    folder.write(METRICS, {**won.metrics, **verdict.after.to_dict(), **verdict.to_dict(), "judged": choice.judged})
    folder.seal()
    return replace(final, metrics=folder.read(METRICS)), plain, verdict


def best_of_pair(
    runs: Mapping[str, RunFolder], wish: Wish, classes: int, *, groups: bool, groups_at_prediction: bool, seed: int
) -> Choice:
    """Judge the runs, plain training first, and their second stages; without validation rows plain training stays."""
    found: list[tuple[str, str, Floats, Floats | None]] = []  # title, run, chances, shift
    try:
        for name, folder in runs.items():
            said, labels, codes = folder.read_logits("validation")
            rows = Rows(labels.numpy(), codes.numpy() if groups and codes is not None else None, classes)
            chances = probabilities(said.double()).numpy()
            title = PLAIN if name == "plain" else name
            found.append((title, name, chances, None))
            found += [
                (f"{title} + {s}", name, c, up) for s, c, up in _stages(chances, rows, wish, groups_at_prediction, seed)
            ]
    except MissingData:
        note = "There are no validation rows to judge FORML on, so plain training stays."
        nothing: dict[str, Any] = {"reference": PLAIN, "chosen": PLAIN, "candidates": [], "notes": [note]}
        return Choice("plain", PLAIN, None, nothing)
    plain = found[0][2].argmax(axis=1)
    judgements = [judged(rows, plain, chances.argmax(axis=1), wish, seed) for _, _, chances, _ in found]
    place = choose(Score.of(rows, plain, wish.criterion), judgements, wish) or 0
    title, run, _, shift = found[place]
    told = [{"name": one[0], "learner": "network", **j.to_dict()} for one, j in zip(found, judgements, strict=True)]
    about = {"reference": PLAIN, "chosen": title, "rows": len(rows.labels), "candidates": told, "notes": []}
    return Choice(run, title, shift, about)


def _stages(
    chances: Floats, rows: Rows, wish: Wish, groups_at_prediction: bool, seed: int
) -> Iterator[tuple[str, Floats, Floats]]:
    """Second stages: a name, probabilities whose halves were each moved by what the other says, and the whole shift."""
    half = np.random.default_rng(seed).permutation(len(rows.labels)) % HALVES
    size = 1 if rows.groups is None else int(rows.groups.max()) + 1
    parts = [half != k for k in range(HALVES)] + [np.ones(len(half), dtype=bool)]
    known = np.ones(len(half), dtype=bool) if rows.groups is None else rows.groups >= 0

    def at(there: Any) -> Rows:
        return Rows(rows.labels[there], None if rows.groups is None else rows.groups[there], rows.classes)

    ways: dict[str, list[Floats]] = {}
    if rows.classes > 2 and (rows.by_label or wish.criterion.every_label):
        ups = [even_recalls(chances[part], at(part), wish) for part in parts]
        ways = {f"bias-{strength:g}": [strength * up for up in ups] for strength in BIASES}
    if groups_at_prediction and rows.classes == 2 and rows.groups is not None:
        ways["thresholds"] = [thresholds(chances[p & known], at(p & known), wish, size) for p in parts]
    for name, shifts in ways.items():
        found = chances.copy()
        for k in range(HALVES):
            there = half == k
            found[there] = moved(chances[there], None if rows.groups is None else rows.groups[there], shifts[k])
        yield name, found, shifts[-1]


def adopt(folder: RunFolder, won: Result, spec: Spec, shift: Floats | None, dataset: Dataset, device: str) -> Result:
    """Put the files of the run that won into the folder, its decisions moved; metrics and seal are the caller's."""
    (folder.path / MANIFEST).unlink(missing_ok=True)
    (folder.path / METRICS).unlink(missing_ok=True)
    own = () if shift is None else (LOGITS, PREDICTIONS)
    folder.copy(won.folder, [name for name in SEALED if name not in (RUN, METRICS, *own)])
    up = None if shift is None else shift.tolist()
    final = won.spec if up is None else won.spec.with_(judge={"shift": up})
    folder.write(RUN, {**won.folder.read(RUN), "spec": final.to_dict(), "fingerprint": spec.fingerprint})
    if up is not None:
        parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
        there = {name: part for name, part in parts.items() if part is not None}
        folder.write_logits(
            {name: (part, shifted(won.folder.read_logits(name)[0], part.groups, up)) for name, part in there.items()}
        )
        model = network_for(dataset.preprocessing, won.spec.network)
        won.folder.read_model(model)
        folder.write_predictions(dataset, final_predictions(model.to(device), placed(dataset.test, device), up))
    return Result(final, folder, {}, reused=False)
