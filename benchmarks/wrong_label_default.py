"""FORML by shared scores and by scores of single samples where training labels are wrong, beside plain training.

The rule stands in wrong_label_words.md, written before these numbers. Every row trains what `fairweight train --method`
trains; the rule takes one of FORML's two rows, by the estimated number of wrong labels.

    python benchmarks/wrong_label_default.py --data-dir FOLDER --first-seed 20 --seeds 10
    python benchmarks/wrong_label_default.py --data-dir FOLDER --first-seed 20 --seeds 10 --judged \\
        --sets adult --noises group
    python benchmarks/wrong_label_default.py --records records
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from arena_data import PART, Made, make
from arena_tasks import carry_out, parser_of
from judgement_checks import difference
from judgement_numbers import counts_of, numbers_of
from torch import Tensor

from fairweight.apps import train as app
from fairweight.metagradient.passes import predicted
from fairweight.paper.records import keep
from fairweight.runs.build import build
from fairweight.runs.defaults import TIED_RATE
from fairweight.runs.held_out import noise_of
from fairweight.runs.run import train_built
from fairweight.runs.statistics import Mean
from fairweight.training.predict import logits
from fairweight.types import Samples

SETS = ("adult", "bank", "credit", "compas", "communities", "student")
NOISES = ("group", "group10", "uniform20", "clean")  # 20 and 10 % of one group's labels, 20 % of all, none
PLAIN, TIED, OWN, RULE = "plain", "FORML, shared scores", "FORML, scores of samples", "FORML by the rule"
DELIVERED = "fairweight train"
NUMBERS = ("accuracy", "gap")
POSITIVE = {"communities": "0"}  # of the other label one group has seven rows
BUDGET = 0.3  # points of accuracy
KINDS = {"one group's": ("group", "group10"), "all labels": ("uniform20",), "none": ("clean",)}
COMMAND = "python benchmarks/wrong_label_default.py --data-dir FOLDER --first-seed 20 --seeds 10"


def prepared_for(task: Mapping[str, Any], out: str, data_dir: str, method: str | None) -> tuple[Made, app.Prepared]:
    """Draw the rows of a task and read them as `fairweight train` does."""
    name, noise, seed, draw = (task[key] for key in ("name", "noise", "seed", "draw"))
    made, csv = make(name, noise, seed, data_dir, draw=draw), Path(out) / f"{name}.csv"
    csv.parent.mkdir(parents=True, exist_ok=True)
    made.frame.to_csv(csv, index=False)
    data = {"split": {"column": PART}} | ({"labels": {"positive": POSITIVE[name]}} if name in POSITIVE else {})
    return made, app.prepare(app.Wanted(str(csv), made.table.label, made.table.group, method, seed, data, {}))


def measured(said: Tensor, test: Samples) -> dict[str, float]:
    """Accuracy and gap of predictions for the test rows, whose labels are right."""
    numbers = numbers_of(counts_of(test.labels.numpy(), said.numpy(), test.groups.numpy()))
    gap = numbers["gaps"]["equal-opportunity"]["value"]
    return {"accuracy": numbers["accuracy"], "gap": gap, "positives": numbers["positives"]}


def judged(task: dict[str, Any], out: str, data_dir: str) -> dict[str, Any]:
    """What `fairweight train` without a method delivers, and plain training."""
    _, prepared = prepared_for(task, out, data_dir, None)
    folder, begun = Path(out) / "judged", time.process_time()
    shutil.rmtree(folder, ignore_errors=True)
    done = app.train(prepared, folder)
    told = {DELIVERED: done.result, PLAIN: done.baseline or done.result}
    rows = {title: measured(predicted(run.folder.read_logits("test")[0]), prepared.dataset.test)
            for title, run in told.items()}  # fmt: skip
    about = {"chosen": done.verdict.chosen, "kept_plain": done.verdict.kept_plain, "notes": list(done.verdict.notes)}
    return {"rows": rows, **about, "seconds": round(time.process_time() - begun, 1)}


def job(task: dict[str, Any], out: str, data_dir: str) -> dict[str, Any]:
    """Train all rows of one set, kind of noise and seed."""
    made, prepared = prepared_for(task, out, data_dir, "forml")
    dataset, forml = prepared.dataset, prepared.spec
    started = time.process_time()
    noise_found = noise_of(dataset)
    assert noise_found is not None
    count, seconds = noise_found.count(), time.process_time() - started
    true = made.true[made.train]
    given = made.frame.loc[made.train, made.table.label].to_numpy().astype(object)
    told = {"value": count.value, "low": count.low, "high": count.high, "wrong": int((true != given).sum())}
    sizes = {"n_train": len(dataset.train), "n_exemplar": len(dataset.exemplar), "n_test": len(dataset.test)}
    about = {"count": {**told, "seconds": round(seconds, 2)}, **sizes}
    options = {"objective": forml.method_options["objective"]}
    tied = {**options, "tie": "cell", "score_step": {"name": "adaptive", "rate": TIED_RATE}}
    ways = {PLAIN: prepared.baseline, TIED: forml.with_(method_options=tied), OWN: forml.with_(method_options=options)}
    if count.low <= 0:
        del ways[OWN]  # which the rule does not take
    found = {}
    for title, spec in ways.items():
        begun, built = time.process_time(), build(spec, dataset)
        train_built(built, spec, dataset)
        told = measured(predicted(logits(built.model, dataset.test)), dataset.test)
        found[title] = {**told, "seconds": round(time.process_time() - begun, 2)}
    found[RULE] = found[OWN if OWN in found else TIED]
    return {"rows": found, **about}


def beside(entries: Sequence[Mapping[str, Any]], a: str, b: str) -> dict[str, Any]:
    """Differences by seed, after the mean over sets and kinds of noise."""
    found = {}
    for key in NUMBERS:
        apart: dict[int, list[float]] = {}
        for entry in entries:
            rows = entry["found"]["rows"]
            apart.setdefault(entry["task"]["seed"], []).append(rows[a][key] - rows[b][key])
        means = {seed: float(np.mean(changes)) for seed, changes in apart.items()}
        change = difference(means, dict.fromkeys(means, 0.0))._asdict()
        found[key] = {name: value if math.isfinite(value) else None for name, value in change.items()}
    return found


def checks(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """The four conditions of wrong_label_words.md."""
    group, uniform, clean = (parts[name] for name in ("one group's", "all labels", "none"))
    return {
        "one group's labels wrong: less gap than with shared scores, at most 0.3 points of accuracy lost":
            group[TIED]["gap"]["high"] < 0 and group[TIED]["accuracy"]["mean"] >= -BUDGET,
        "one group's labels wrong: no larger gap than plain training": group[PLAIN]["gap"]["low"] <= 0,
        "uniform flips: no larger gap than with shared scores, at most 0.3 points of accuracy lost":
            uniform[TIED]["gap"]["low"] <= 0 and uniform[TIED]["accuracy"]["mean"] >= -BUDGET,
        "no label wrong: neither a larger gap nor less accuracy than with shared scores":
            clean[TIED]["gap"]["low"] <= 0 <= clean[TIED]["accuracy"]["high"],
    }  # fmt: skip


def record_of(
    entries: list[dict[str, Any]], delivered: list[dict[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Means by set and noise, differences by kind of noise, and what the rule's conditions say."""
    parts: dict[str, Any] = {}
    for kind, noises in KINDS.items():
        mine = [entry for entry in entries if entry["task"]["noise"] in noises]
        parts[kind] = {**{other: beside(mine, RULE, other) for other in (TIED, PLAIN)},
                       f"{TIED}, beside plain": beside(mine, TIED, PLAIN)}  # fmt: skip
    sets = []
    for name, noise in product(SETS, NOISES):
        mine = [entry for entry in entries if (entry["task"]["name"], entry["task"]["noise"]) == (name, noise)]
        rows = [entry["found"]["rows"] for entry in mine]
        means = {
            title: {key: Mean.of([row[title][key] for row in rows]).to_dict() for key in NUMBERS}
            for title in (PLAIN, TIED, RULE)
        }
        found = sum(entry["found"]["count"]["low"] > 0 for entry in mine)
        change = beside(mine, RULE, TIED)
        sets.append({"set": name, "noise": noise, "n": len(mine), "found": found, "means": means, "change": change})
    held = checks(parts)
    return {
        "kind": "wrong labels", "name": "wrong_label_default", **about, "adopted": all(held.values()), "checks": held,
        "differences": parts, "sets": sets,
        "delivered": {"difference": beside(delivered, DELIVERED, PLAIN), "runs": delivered}, "runs": entries,
    }  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__, "runs/wrong_label_default")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--judged", action="store_true", help="train without --method")
    parser.add_argument("--records", type=Path, help="only write the record of what was found")
    asked = parser.parse_args()
    files = [Path(asked.out) / name for name in ("found.json", "judged.json")]
    if asked.records is not None:
        kept, other = (json.loads(file.read_text()) for file in files)
        about = {**kept["about"], "command": COMMAND, "delivered_by": other["about"]["commit"]}
        print(keep(record_of(kept["entries"], other["entries"], about), asked.records))
        return
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    tasks = [
        {"name": name, "noise": noise, "seed": seed, "draw": ("even", "random")[seed % 2]}
        for seed in seeds for noise in asked.noises.split(",") for name in asked.sets.split(",")
    ]  # fmt: skip
    asked.results = files[asked.judged]
    carry_out(judged if asked.judged else job, tasks, asked)


if __name__ == "__main__":
    main()
