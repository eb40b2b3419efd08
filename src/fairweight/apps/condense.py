"""Drop samples by what a run learned of them, and train on the rest beside random sets and the whole."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.apps._drop_rules import (
    COLUMNS,
    QUOTAS,
    STANDS,
    Condensed,
    condense,
    correlation_with_recall,
    number_to_drop,
    random_like,
    rule_named,
)
from fairweight.apps._wrong_labels import ranked_labels
from fairweight.apps.audit import finished
from fairweight.errors import MissingData, RunsFailed
from fairweight.metagradient.passes import predicted
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.own_model import with_trusted_network
from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Watcher
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

KEPT, KEPT_LIST, SUMMARY = "kept.parquet", "kept.txt", "condense.json"
NUMBERS = {"tprd": "TPRD ↓", "max_fnr": "maxFNR ↓", "accuracy": "accuracy ↑"}
ARMS = {
    "full": "all samples",
    "kept": "kept by the rule",
    "random": "random, same size",
    "random-by-class": "random, same count per class",
}


@dataclass(frozen=True)
class Written:
    """What was dropped, and where the rest is listed."""

    run: RunFolder
    out: Path
    condensed: Condensed
    correlation: float | None  # between the share of each label that goes and its recall

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        table = self.condensed.cells
        return {
            "run": str(self.run.path),
            "rule": self.condensed.rule,
            "kept": int(self.condensed.kept.sum()),
            "dropped": self.condensed.dropped,
            "cells": table.to_dict(orient="records"),
            "notes": list(self.condensed.notes),
            "correlation_of_dropped_share_with_recall": self.correlation,
            "files": {"parquet": str(self.out / KEPT), "list": str(self.out / KEPT_LIST)},
        }

    def text(self) -> str:
        """What goes from each label, for a terminal."""
        found = self.condensed
        lines = [f"{found.dropped:,} samples go and {int(found.kept.sum()):,} stay, by {found.rule}."]
        lines += [f"  {note}" for note in found.notes]
        lines += ["", f"{'label':24s}{'before':>10s}{'after':>10s}{'dropped':>10s}"]
        table = found.by_label().sort_values("dropped_share", ascending=False)
        for label, before, after, share in table.head(20).itertuples():
            lines.append(f"{str(label)[:23]:24s}{before:10,}{after:10,}{100 * share:9.1f} %")
        if len(table) > 20:
            lines.append(f"... and {len(table) - 20} more labels, of which less was dropped.")
        if self.correlation is not None:
            lines.append(f"Correlation of a label's dropped share with its recall: {self.correlation:+.2f}.")
        lines += ["", f"Kept rows: {self.out / KEPT} and {self.out / KEPT_LIST}, one source row per line."]
        return "\n".join(lines)


def condense_run(
    run: str | Path, drop: str, rule: str, floor: int, out: str | Path | None = None, *, seed: int = 0
) -> Written:
    """Choose by a run's history, and write the kept rows as parquet and as a plain list of source rows."""
    rule = rule_named(rule)
    folder = finished(run)
    weights = folder.read_weights()
    if COLUMNS.get(rule) == STANDS:
        noise = ranked_labels(folder, weights).noise
        weights = weights if noise is None else weights.assign(**{STANDS: 1.0 - noise.wrong})
    recall, words = _held_out_recall(folder) if rule == QUOTAS else (None, "")
    count = number_to_drop(drop, len(weights))
    condensed = condense(weights, count, rule, floor=floor, recall=recall, seed=seed)
    if words:
        condensed = replace(condensed, notes=(words, *condensed.notes))
    where = Path(run) / f"condensed_{rule}_{drop.strip().replace('%', 'pct')}" if out is None else Path(out)
    frame = weights.loc[condensed.kept, ["row", "label", "group"]].assign(value=condensed.values[condensed.kept])
    content = io.BytesIO()
    frame.to_parquet(content, index=False, write_page_checksum=True)
    written = Written(folder, where, condensed, correlation_with_recall(condensed, folder.read(METRICS)))
    RunFolder(where).make()
    with claimed(where):
        RunFolder(where).tidy(KEPT, KEPT_LIST, SUMMARY)
        write_atomically(where / KEPT, content.getvalue())
        write_rows(where / KEPT_LIST, weights.loc[condensed.kept, "row"])
        RunFolder(where).write(SUMMARY, written.to_dict())
    return written


def _held_out_recall(folder: RunFolder) -> tuple[dict[str, float], str]:
    """Recall of each label on the validation set, or on the exemplars where there is none, never on test; in words."""
    names = [str(name) for name in folder.read(METRICS)["labels"]]
    try:
        part, (logits, labels, _) = "validation samples", folder.read_logits("validation")
    except MissingData:
        part, (logits, labels, _) = "exemplars, as the run has no validation set", folder.read_logits("exemplar")
    right = predicted(logits) == labels
    counts = {name: int((labels == k).sum()) for k, name in enumerate(names)}
    recall = {name: float(right[labels == k].double().mean()) for k, name in enumerate(names) if counts[name]}
    return recall, f"Recall by label is that on {len(labels):,} {part}; the rarest label has {min(counts.values())}."


def write_rows(path: Path, rows: pd.Series[int]) -> dict[str, str]:
    """Write one source row per line; what a Spec says of such a file."""
    return write_named(path, "".join(f"{row}\n" for row in sorted(rows.tolist())).encode())


def write_named(path: Path, content: bytes) -> dict[str, str]:
    """Write a file that a Spec names with its checksum."""
    write_atomically(path, content)
    return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}


def train_all(
    specs: Mapping[str, Spec],
    where: Path,
    watching: Callable[[dict[str, str]], Watcher] | None,
    **options: Any,
) -> dict[str, RunFolder]:
    """Train what each name stands for; the finished runs by fingerprint."""
    told = None if watching is None else watching({spec.fingerprint: name for name, spec in specs.items()})
    outcomes = run_all(list(specs.values()), where, watcher=told, **options)
    failed = next((outcome for outcome in outcomes.values() if outcome.error is not None), None)
    if failed is not None:
        raise RunsFailed(f"the run {failed.folder} failed: {failed.error}")
    return {fingerprint: RunFolder(outcome.folder) for fingerprint, outcome in outcomes.items()}


@dataclass(frozen=True)
class Retrained:
    """Plain training on each set, over seeds."""

    arms: Mapping[str, Sequence[Mapping[str, float]]]  # by arm: each seed's numbers
    sizes: Mapping[str, int]

    def mean(self, arm: str, number: str) -> Mean:
        """Of one number over seeds, in hundredths; None-valued runs are left out."""
        return Mean.of([100 * found[number] for found in self.arms[arm] if found[number] is not None])

    def difference(self, arm: str, number: str, against: str = "random") -> Mean:
        """Of one number minus another arm's at the same seed."""
        pairs = zip(self.arms[arm], self.arms[against], strict=True)
        known = [(a[number], b[number]) for a, b in pairs if a[number] is not None and b[number] is not None]
        return Mean.of([100 * (a - b) for a, b in known])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            arm: {
                "samples": self.sizes[arm],
                **{number: self.mean(arm, number).to_dict() for number in NUMBERS},
                **{f"{number}_against_random": self.difference(arm, number).to_dict() for number in NUMBERS},
            }
            for arm in self.arms
        }

    def text(self) -> str:
        """The table of all sets, for a terminal."""
        title = f"Uniform, in %, {len(self.arms['full'])} seeds, mean ± standard error"
        lines = ["", f"{title:48s}{'samples':>9s}" + "".join(f"{head:>18s}" for head in NUMBERS.values())]
        for arm, title in ARMS.items():
            means = "".join(f"{self.mean(arm, number).text():>18s}" for number in NUMBERS)
            lines.append(f"{title:48s}{self.sizes[arm]:9,}{means}")
        for arm in ("kept", "random-by-class"):
            apart = "".join(f"{self.difference(arm, number).text():>18s}" for number in NUMBERS)
            lines.append(f"{ARMS[arm] + ', minus random':48s}{'':9s}{apart}")
        return "\n".join(lines)


def retrain(
    written: Written,
    *,
    seeds: int = 5,
    first_seed: int = 0,
    jobs: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    network: str | None = None,
    trust_code: bool = False,
    watching: Callable[[dict[str, str]], Watcher] | None = None,
) -> Retrained:
    """Train Uniform on each set over seeds, with everything else as in the run that chose.

    watching: makes who is told of the runs, given what each is called, by fingerprint. network: the run's own model,
    repeated; without it, or trust_code, a model that is code is not imported.
    """
    with claimed(written.out):
        weights = written.run.read_weights()
        chooser = with_trusted_network(written.run, network, trust_code)
        base = chooser.with_(
            method="uniform",
            method_options={},
            search={},
            weights={},
            data_seed=chooser.seed if chooser.data_seed is None else chooser.data_seed,
        )
        chosen = write_rows(written.out / KEPT_LIST, weights.loc[written.condensed.kept, "row"])
        every: dict[str, list[Spec]] = {arm: [] for arm in ARMS}
        for seed in range(first_seed, first_seed + seeds):
            rules: dict[str, dict[str, str] | None] = {"full": None, "kept": chosen}
            for arm, within in (("random", "all"), ("random-by-class", "label")):
                mask = random_like(weights, written.condensed.kept, seed, within=within)
                rules[arm] = write_rows(written.out / f"{arm}_seed{seed}.txt", weights.loc[mask, "row"])
            for arm, rule in rules.items():
                rows = base.rows if rule is None else {**base.rows, "train": rule}
                every[arm].append(base.with_(seed=seed, rows=rows))
        specs = {f"{ARMS[arm]}, seed {spec.seed}": spec for arm, found in every.items() for spec in found}
        done = train_all(specs, written.out, watching, jobs=jobs, device=device, data_dir=data_dir)
        arms = {arm: [done[spec.fingerprint].read(METRICS) for spec in found] for arm, found in every.items()}
        kept = int(written.condensed.kept.sum())
        sizes = {arm: len(weights) if arm == "full" else kept for arm in ARMS}
        found = Retrained(arms, sizes)
        RunFolder(written.out).write(SUMMARY, {**written.to_dict(), "retrained": found.to_dict(), "seeds": seeds})
        return found
