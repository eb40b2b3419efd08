"""Drop samples by what a run learned of them, and train on the rest beside random sets and the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairweight.apps import _drop_rules as rules
from fairweight.apps._train_text import columns
from fairweight.apps.trainings import HARMS, HELPS, LEVELS, NUMBERS, PLAIN, Compared, Trainings, methods_of
from fairweight.errors import MissingData
from fairweight.metagradient.passes import predicted
from fairweight.runs.folder import FILE, METRICS, RunFolder
from fairweight.runs.own_model import with_trusted_network
from fairweight.runs.run_place import check_no_run, finished
from fairweight.runs.statistics import mean_text
from fairweight.runs.table_file import write_table
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

KEPT, KEPT_LIST, SUMMARY = "kept.parquet", "kept.txt", "condense.json"
FULL = "full"
ARMS = {
    FULL: "all samples",
    "kept": "kept by the rule",
    "random": "random, same size",
    "random-by-class": "random, same count per class",
    "random-by-cell": "random, same count per cell",
}
DRAWN = {"random": "all", "random-by-class": "label", "random-by-cell": "cell"}


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
        found = self.condensed
        table = found.by_cell().sort_values("dropped_share", ascending=False)
        table["dropped"] = [f"{100 * share:.1f} %" for share in table.pop("dropped_share")]
        lines = [f"{found.dropped:,} samples go and {int(found.kept.sum()):,} stay, by {found.rule}."]
        lines += [*(f"  {note}" for note in found.notes), "", table.head(20).to_string()]
        if len(table) > 20:
            lines.append(f"... and {len(table) - 20} more, of which less was dropped.")
        lines += ["", f"Kept rows: {self.out / KEPT} and {self.out / KEPT_LIST}, one source row per line."]
        return "\n".join(lines)


def condense_run(
    run: str | Path, drop: str, rule: str, floor: int, out: str | Path | None = None, *, seed: int = 0
) -> Written:
    """Choose by a run's history, and write the kept rows as parquet and as a plain list of source rows."""
    rule, folder = rules.rule_named(rule), finished(run)
    if out is not None:
        check_no_run(Path(out))
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
    sentence = f"Recall by label is that on {len(labels):,} {part}; the rarest label has {min(counts.values())}."
    return recall, (sentence,)


def write_rows(path: Path, rows: Iterable[int]) -> dict[str, str]:
    """Write one source row per line; what a Spec says of such a file."""
    return write_named(path, "".join(f"{row}\n" for row in sorted(rows)).encode())


def write_named(path: Path, content: bytes) -> dict[str, str]:
    """Write a file that a Spec names with its checksum."""
    write_atomically(path, content)
    return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}


@dataclass(frozen=True)
class Retrained:
    """Trainings on each set over seeds, plain and by the run's method."""

    compared: Compared
    sizes: Mapping[str, int]  # by set

    def to_dict(self) -> dict[str, Any]:
        """By set what plain training has, by method and set, and the verdict."""
        by_method = {
            method: {
                arm: {
                    "samples": self.sizes[arm],
                    **{number: self.compared.mean(method, arm, number).to_dict() for number in NUMBERS},
                    **{f"{n}_against_random": self.compared.difference(method, arm, n, "random") for n in NUMBERS},
                    "beside_all": self.compared.moved(method, arm),
                }
                for arm in arms
            }
            for method, arms in self.compared.seeds.items()
        }
        return {"retrained": by_method[PLAIN], "by_method": by_method, "verdict": self.verdict()}

    def verdict(self) -> str:
        """What training on the kept samples does beside training on all of them, in one sentence."""
        if len(self.compared.seeds[PLAIN]["kept"]) < 2:
            return "One seed tells nothing of chance: raise the seeds."
        by_move = {move: self.compared.methods("kept", [move]) for move in (*HARMS, *HELPS, LEVELS)}
        in_words = {move: f"{move} ({', '.join(methods)})" for move, methods in by_move.items() if methods}
        if harms := [in_words[move] for move in HARMS if move in in_words]:
            return f"Keep all samples, or drop fewer: training on what the rule keeps {' and '.join(harms)}."
        also = f"; it {' and '.join(in_words.values())}" if in_words else ""
        return f"The smaller set does no harm beyond chance on these test rows{also}."

    def text(self) -> str:
        lines = []
        for method, arms in self.compared.seeds.items():
            rows = [("", "samples", *NUMBERS.values(), "beside all")]
            for arm in arms:
                means = [self.compared.mean(method, arm, number).text() for number in NUMBERS]
                rows.append((ARMS[arm], f"{self.sizes[arm]:,}", *means, ", ".join(self.compared.moved(method, arm))))
            for arm in [arm for arm in arms if arm not in (FULL, "random")]:
                apart = [self.compared.difference(method, arm, number, "random") for number in NUMBERS]
                rows.append((f"{ARMS[arm]}, minus random", "", *map(mean_text, apart), ""))
            lines += ["", f"{method}, in %, {len(arms[FULL])} seeds, mean ± standard error", columns(rows)]
        return "\n".join([*lines, "", self.verdict()])


def retrain(
    written: Written, trainings: Trainings, *, network: str | None = None, trust_code: bool = False
) -> Retrained:
    """Train plainly, and by the run's own method, on each set over seeds, with everything else as in the run.

    network: the run's own model, repeated; without it, or trust_code, a model that is code is not imported.
    """
    with claimed(written.out):
        weights, kept = written.run.read_weights(), written.condensed.kept
        methods = methods_of(with_trusted_network(written.run, network, trust_code))
        chosen = write_rows(written.out / KEPT_LIST, weights.loc[kept, "row"])
        finer = written.condensed.cells["label"].duplicated().any()  # cells are more than labels
        drawn = {arm: within for arm, within in DRAWN.items() if finer or within != "cell"}

        def ways(seed: int) -> dict[str, dict[str, Any]]:
            rows = {"kept": chosen}
            for arm, within in drawn.items():
                some = weights.loc[rules.random_like(weights, kept, seed, within=within), "row"]
                rows[arm] = write_rows(written.out / f"{arm}_seed{seed}.txt", some)
            own = methods[PLAIN].rows
            return {FULL: {}, **{arm: {"rows": {**own, "train": rule}} for arm, rule in rows.items()}}

        compared = Compared.of(trainings.over(methods, ways, ARMS, written.out), FULL)
        found = Retrained(compared, {arm: len(weights) if arm == FULL else int(kept.sum()) for arm in ARMS})
        RunFolder(written.out).write(SUMMARY, {**written.to_dict(), **found.to_dict(), "seeds": trainings.seeds})
        return found
