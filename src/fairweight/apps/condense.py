"""Drop samples by what a run learned of them, and train on the rest beside random sets and the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairweight.apps import _drop_rules as rules
from fairweight.apps.audit import finished
from fairweight.apps.suspects import write_table
from fairweight.errors import MissingData, RunsFailed
from fairweight.metagradient.passes import predicted
from fairweight.runs.folder import FILE, METRICS, RunFolder
from fairweight.runs.own_model import with_trusted_network
from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Watcher
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, mean_text, numbers_of, paired
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

KEPT, KEPT_LIST, SUMMARY = "kept.parquet", "kept.txt", "condense.json"
PLAIN = "uniform"
NUMBERS = {"tprd": "TPRD ↓", "max_fnr": "maxFNR ↓", "accuracy": "accuracy ↑"}
ARMS = {
    "full": "all samples",
    "kept": "kept by the rule",
    "random": "random, same size",
    "random-by-class": "random, same count per class",
}
Seeds = Mapping[str, Mapping[str, float]]  # by seed: numbers in %; what a run could not estimate is left out
Runs = dict[str, dict[str, dict[str, RunFolder]]]  # by method, set and seed
Ways = Callable[[int], Mapping[str, Mapping[str, Any]]]  # by set: how a Spec changes for a seed
Watching = Callable[[dict[str, str]], Watcher]  # who is told of the runs, given what each is called by fingerprint


@dataclass(frozen=True)
class Written:
    """What was dropped, and where the rest is listed."""

    run: RunFolder
    out: Path
    condensed: rules.Condensed

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": str(self.run.path),
            "rule": self.condensed.rule,
            "kept": int(self.condensed.kept.sum()),
            "dropped": self.condensed.dropped,
            "cells": self.condensed.cells.to_dict(orient="records"),
            "notes": list(self.condensed.notes),
            "files": {"parquet": str(self.out / KEPT), "list": str(self.out / KEPT_LIST)},
        }

    def text(self) -> str:
        """What goes from each label, for a terminal."""
        found = self.condensed
        table = found.by_label().sort_values("dropped_share", ascending=False)
        table["dropped"] = [f"{100 * share:.1f} %" for share in table.pop("dropped_share")]
        lines = [f"{found.dropped:,} samples go and {int(found.kept.sum()):,} stay, by {found.rule}."]
        lines += [*(f"  {note}" for note in found.notes), "", table.head(20).to_string()]
        if len(table) > 20:
            lines.append(f"... and {len(table) - 20} more labels, of which less was dropped.")
        lines += ["", f"Kept rows: {self.out / KEPT} and {self.out / KEPT_LIST}, one source row per line."]
        return "\n".join(lines)


def condense_run(
    run: str | Path, drop: str, rule: str, floor: int, out: str | Path | None = None, *, seed: int = 0
) -> Written:
    """Choose by a run's history, and write the kept rows as parquet and as a plain list of source rows."""
    rule, folder = rules.rule_named(rule), finished(run)
    weights = folder.read_weights()
    recall, words = _held_out_recall(folder) if rule == rules.QUOTAS else ({}, ())
    count = rules.number_to_drop(drop, len(weights))
    condensed = rules.condense(weights, count, rule, floor=floor, recall=recall, seed=seed)
    condensed = replace(condensed, notes=(*words, *condensed.notes))
    where = Path(run) / f"condensed_{rule}_{drop.strip().replace('%', 'pct')}" if out is None else Path(out)
    columns = [name for name in ("row", FILE, "label", "group") if name in weights]
    frame = weights.loc[condensed.kept, columns].assign(value=condensed.values[condensed.kept])
    written = Written(folder, where, condensed)
    with RunFolder(where).claimed():
        RunFolder(where).tidy(KEPT, KEPT_LIST, SUMMARY)
        write_table(frame, where / KEPT)
        write_rows(where / KEPT_LIST, frame["row"])
        RunFolder(where).write(SUMMARY, written.to_dict())
    return written


def _held_out_recall(folder: RunFolder) -> tuple[dict[str, float], tuple[str]]:
    """Recall of each label on the validation set, or on the exemplars where there is none, never on test; in words."""
    names = [str(name) for name in folder.read(METRICS)["labels"]]
    try:
        part, (logits, labels, _) = "validation samples", folder.read_logits("validation")
    except MissingData:
        part, (logits, labels, _) = "exemplars, as the run has no validation set", folder.read_logits("exemplar")
    right = predicted(logits) == labels
    counts = {name: int((labels == k).sum()) for k, name in enumerate(names)}
    recall = {name: float(right[labels == k].double().mean()) for k, name in enumerate(names) if counts[name]}
    said = f"Recall by label is that on {len(labels):,} {part}; the rarest label has {min(counts.values())}."
    return recall, (said,)


def write_rows(path: Path, rows: Iterable[int]) -> dict[str, str]:
    """Write one source row per line; what a Spec says of such a file."""
    return write_named(path, "".join(f"{row}\n" for row in sorted(rows)).encode())


def write_named(path: Path, content: bytes) -> dict[str, str]:
    """Write a file that a Spec names with its checksum."""
    write_atomically(path, content)
    return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}


def plainly(spec: Spec) -> Spec:
    """Plain training on the same rows, in every other respect as a run's Spec says."""
    return spec.with_(method=PLAIN, method_options={}, search={}, weights={}, data_seed=spec.drawing_seed)


@dataclass(frozen=True)
class Trainings:
    """How sets are compared: over which seeds, and where they are trained."""

    seeds: int = 5
    first_seed: int = 0
    jobs: int | None = None
    device: str = "cpu"
    data_dir: str | Path | None = None
    watching: Watching | None = None

    def over(self, methods: Mapping[str, Spec], ways: Ways, titles: Mapping[str, str], where: Path) -> Runs:
        """Train by every method on every set that `ways` makes for a seed; the runs by method, set and seed."""
        specs = {
            (method, arm, seed): spec.with_(seed=seed, **change)
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for arm, change in ways(seed).items()
            for method, spec in methods.items()
            if method == PLAIN or "method" not in change  # another method takes the place of plain training
        }
        named = {spec.fingerprint: f"{method}, {titles[arm]}, seed {k}" for (method, arm, k), spec in specs.items()}
        told = None if self.watching is None else self.watching(named)
        options: dict[str, Any] = {"jobs": self.jobs, "device": self.device, "data_dir": self.data_dir}
        outcomes = run_all(specs.values(), where, watcher=told, **options)
        found: Runs = {method: {} for method in methods}
        for (method, arm, seed), spec in specs.items():
            outcome = outcomes[spec.fingerprint]
            if outcome.error is not None:
                raise RunsFailed(f"the run {outcome.folder} failed: {outcome.error}")
            found[method].setdefault(arm, {})[str(seed)] = RunFolder(outcome.folder)
        return found


def numbers_over(runs: Mapping[str, RunFolder]) -> Seeds:
    """Numbers in % of runs, by seed."""
    every = {seed: numbers_of(folder) for seed, folder in runs.items()}
    return {seed: {name: found[name] for name in NUMBERS if name in found} for seed, found in every.items()}


def mean_of(seeds: Seeds, number: str) -> Mean:
    """Of one number over seeds."""
    return Mean.of([found[number] for found in seeds.values() if number in found])


def difference(seeds: Seeds, other: Seeds, number: str) -> dict[str, Any]:
    """Mean difference of one number at the same seeds, with the p-value of a paired t-test."""
    return paired(*({seed: v[number] for seed, v in arm.items() if number in v} for arm in (seeds, other)))


@dataclass(frozen=True)
class Retrained:
    """Plain training on each set, over seeds."""

    arms: Mapping[str, Seeds]
    sizes: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        return {
            arm: {
                "samples": self.sizes[arm],
                **{number: mean_of(seeds, number).to_dict() for number in NUMBERS},
                **{f"{n}_against_random": difference(seeds, self.arms["random"], n) for n in NUMBERS},
            }
            for arm, seeds in self.arms.items()
        }

    def text(self) -> str:
        """The table of all sets, for a terminal."""
        import pandas as pd

        rows = {ARMS[a]: [f"{self.sizes[a]:,}", *(mean_of(v, n).text() for n in NUMBERS)] for a, v in self.arms.items()}
        for arm in ("kept", "random-by-class"):
            apart = [difference(self.arms[arm], self.arms["random"], number) for number in NUMBERS]
            rows[f"{ARMS[arm]}, minus random"] = ["", *map(mean_text, apart)]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["samples", *NUMBERS.values()])
        return f"\nUniform, in %, {len(self.arms['full'])} seeds, mean ± standard error\n{table.to_string()}"


def retrain(
    written: Written, trainings: Trainings, *, network: str | None = None, trust_code: bool = False
) -> Retrained:
    """Train Uniform on each set over seeds, with everything else as in the run that chose.

    network: the run's own model, repeated; without it, or trust_code, a model that is code is not imported.
    """
    with claimed(written.out):
        weights, kept = written.run.read_weights(), written.condensed.kept
        base = plainly(with_trusted_network(written.run, network, trust_code))
        chosen = write_rows(written.out / KEPT_LIST, weights.loc[kept, "row"])

        def ways(seed: int) -> dict[str, dict[str, Any]]:
            rows = {"kept": chosen}
            for arm, within in (("random", "all"), ("random-by-class", "label")):
                drawn = weights.loc[rules.random_like(weights, kept, seed, within=within), "row"]
                rows[arm] = write_rows(written.out / f"{arm}_seed{seed}.txt", drawn)
            return {"full": {}, **{arm: {"rows": {**base.rows, "train": rule}} for arm, rule in rows.items()}}

        done = trainings.over({PLAIN: base}, ways, ARMS, written.out)[PLAIN]
        arms = {arm: numbers_over(runs) for arm, runs in done.items()}
        found = Retrained(arms, {arm: len(weights) if arm == "full" else int(kept.sum()) for arm in ARMS})
        said = {**written.to_dict(), "retrained": found.to_dict(), "seeds": trainings.seeds}
        RunFolder(written.out).write(SUMMARY, said)
        return found
