"""What per-sample scores add to cell weights where labels of one group are wrong: Adult, bank, credit.

10 or 20 % of one group's training labels are flipped; exemplars, validation and test are clean. Every row trains the
network that `fairweight train` chooses, and keeps the epoch with the least validation loss, plain training included.

    python benchmarks/label_flips.py --data FOLDER --sets adult --seeds 10          # finished runs stay in --runs
    python benchmarks/label_flips.py --record                                      # records/<date>_label_flips

The question: what do scores per sample add to four cell weights, in accuracy and gap? Something is added where the 95 %
interval of the paired difference over all sets, flips and seeds lies on one side of zero. Asked before any run: FORML
as `fairweight train` sets it beside the means of its weights in the cells, held fixed. Asked after two runs were seen
(Adult, seed 10): scores of samples alone, beside the means of their weights, and beside scores of cells alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judgement_checks import difference
from judgement_numbers import counts_of, numbers_of
from judgement_sets import drawn, loaded
from torch import Tensor

from fairweight.data import Dataset
from fairweight.data.corrupt import GroupFlips
from fairweight.methods import Reweighter
from fairweight.methods.given import Given
from fairweight.runs.build import method_from, network_for, optimizer_for
from fairweight.runs.defaults import method_defaults, with_defaults
from fairweight.runs.provenance import provenance
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, mean_text
from fairweight.training.callbacks import EarlyStopping
from fairweight.training.fit import fit
from fairweight.training.options import FitOptions
from fairweight.training.predict import predict
from fairweight.types import Batch

ROOT = Path(__file__).resolve().parents[1]
SETS = {"adult": "Female", "bank": "single", "credit": "male"}  # by set, the group whose labels are flipped
FLIPS = (0.1, 0.2)
ROWS = 6_000
PLAIN, CLEAN, ADDED = "plain", "plain, true labels", "plain, exemplars added"
BOTH, OWN, CELLS = (
    "FORML, scores of samples and cells",
    "FORML, scores of samples alone",
    "FORML, scores of cells alone",
)
FIXED, FIXED_MEANS = "its weights, fixed", "their means in the cells, fixed"
OWN_FIXED, OWN_MEANS = "weights of samples alone, fixed", "means of those in the cells, fixed"
QUESTIONS = ((BOTH, FIXED_MEANS), (OWN, OWN_MEANS), (OWN_FIXED, OWN_MEANS), (OWN, CELLS))  # the first is the verdict
NUMBERS = ("accuracy", "gap")
Make = Callable[[torch.nn.Module, int], Reweighter]


def cell_means(weights: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    """Replace every weight by the mean of its cell."""  # [N]
    cells = labels * (int(groups.max()) + 1) + groups
    count = torch.bincount(cells).clamp_min(1)
    return (torch.bincount(cells, weights.double()) / count)[cells].float()


def auc_in_cells(wrong: Tensor, weights: Tensor, labels: Tensor, groups: Tensor) -> float | None:
    """How well a low weight finds wrong labels among samples of the same cell: the mean over cells that have any."""
    from sklearn.metrics import roc_auc_score

    found, sizes = [], []
    for y in labels.unique():
        for a in groups.unique():
            here = (labels == y) & (groups == a)
            if 0 < int(wrong[here].sum()) < int(here.sum()):
                found.append(roc_auc_score(wrong[here].numpy(), -weights[here].numpy()))
                sizes.append(int(wrong[here].sum()))
    return float(np.average(found, weights=sizes)) if found else None


def trained(dataset: Dataset, spec: Spec, train: Batch, make: Make) -> tuple[dict[str, Any], Reweighter]:
    """Train one row of the table and measure it on test."""
    started = time.monotonic()
    torch.manual_seed(spec.seed)
    model = network_for(dataset.preprocessing, spec.network)
    method = make(model, len(train))
    stop = EarlyStopping("loss", int(spec.early_stopping["patience"]))
    options = FitOptions(batch_size=spec.batch_size, per_cell=spec.per_cell, seed=spec.seed)
    fit(
        model, optimizer_for(model, spec, "cpu"), method, train, dataset.exemplar, spec.epochs, [stop],
        validation=dataset.validation, options=options,
    )  # fmt: skip
    test = dataset.test
    counts = counts_of(*(t.numpy() for t in (test.labels, predict(model, test), test.groups)))
    found = numbers_of(counts)
    gap = found["gaps"]["equal-opportunity"]["value"]
    told = {"accuracy": found["accuracy"], "gap": gap, "positives": found["positives"], "kept_epoch": stop.best_epoch}
    return {**told, "counts": counts.tolist(), "seconds": round(time.monotonic() - started, 2)}, method


def one(name: str, flips: float, seed: int, data: Path, rows: int = ROWS, epochs: int | None = None) -> dict[str, Any]:
    """Train all rows of one set, share of flips and seed."""
    dataset = loaded(drawn(name, seed, data, rows), seed, corruptions=(GroupFlips({SETS[name]: flips}),))
    train, exemplar = dataset.train, dataset.exemplar
    assert dataset.true_labels is not None
    asked = {} if epochs is None else {"epochs": epochs}
    spec = with_defaults(Spec(name, seed=seed), dataset, asked)
    alone = method_defaults("forml", 2, groups=True, train_groups=False)
    added = Batch(
        torch.cat([train.inputs, exemplar.inputs]), torch.cat([train.labels, exemplar.labels]),
        torch.cat([train.groups, exemplar.groups]),
    )  # fmt: skip

    def uniform(model: torch.nn.Module, n: int) -> Reweighter:
        return method_from("uniform", {}, model, n)

    def forml(options: Mapping[str, Any]) -> Make:
        return lambda model, n: method_from("forml", options, model, n)

    found = {
        PLAIN: trained(dataset, spec, train, uniform)[0],
        ADDED: trained(dataset, spec, added, uniform)[0],
        CLEAN: trained(dataset, spec, replace(train, labels=dataset.true_labels), uniform)[0],
        CELLS: trained(dataset, spec, train, forml({**spec.method_options, "own": False}))[0],
    }
    wrong = train.labels != dataset.true_labels
    for title, options, *again in ((OWN, alone, OWN_FIXED, OWN_MEANS), (BOTH, spec.method_options, FIXED, FIXED_MEANS)):
        found[title], method = trained(dataset, spec, train, forml(options))
        weights = method.weights().cpu()
        found[title]["auc_in_cells"] = auc_in_cells(wrong, weights, train.labels, train.groups)
        means = cell_means(weights, train.labels, train.groups)
        for other, fixed in zip(again, (weights, means), strict=True):
            found[other] = trained(dataset, spec, train, lambda model, n, w=fixed: Given(model, n, weights=w))[0]
    sizes = {"n_train": len(train), "n_exemplar": len(exemplar), "n_test": len(dataset.test), "wrong": int(wrong.sum())}
    return {"set": name, "flips": flips, "seed": seed, **sizes, "rows": found}


def paired(runs: Iterable[Mapping[str, Any]], a: str, b: str, key: str) -> dict[str, Any]:
    """Compare two rows over all runs."""
    numbered = dict(enumerate(runs))
    values = [{k: run["rows"][title][key] for k, run in numbered.items()} for title in (a, b)]
    return difference(*values).to_dict()


def answer(runs: list[Mapping[str, Any]], a: str, b: str) -> dict[str, Any]:
    """Answer one question by the rule that stands at the top: what a adds to b."""
    apart = {key: paired(runs, a, b, key) for key in NUMBERS}
    accuracy, gap = apart["accuracy"], apart["gap"]
    known = accuracy["low"] is not None  # of one run nothing is sure
    gains = {"more accuracy": known and accuracy["low"] > 0, "less gap": known and gap["high"] < 0}
    costs = {"less accuracy": known and accuracy["high"] < 0, "more gap": known and gap["low"] > 0}
    found = {
        name: [word for word, holds in side.items() if holds] for name, side in (("gains", gains), ("costs", costs))
    }
    return {"a": a, "b": b, **found, "differences": apart}


def sentence(found: Mapping[str, Any]) -> str:
    """Say an answer."""
    apart = found["differences"]
    told = ", ".join(f"{key} {d['mean']:+.2f} [{_bound(d['low'])}, {_bound(d['high'])}]" for key, d in apart.items())
    sure = " and ".join((*found["gains"], *found["costs"])) or "no sure difference"
    return f"{found['a']}, beside {found['b']}: {sure} ({told} points, n {apart['gap']['n']})."


def _bound(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def record_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put finished runs together: means by set and flips, all differences from plain, and the verdict."""
    parts = {}
    for name, flips in sorted({(run["set"], run["flips"]) for run in runs}):
        mine = sorted((r for r in runs if (r["set"], r["flips"]) == (name, flips)), key=lambda r: int(r["seed"]))
        means = {}
        for title in mine[0]["rows"]:
            values = [run["rows"][title] for run in mine]
            means[title] = {
                key: Mean.of([v[key] for v in values]).to_dict() for key in (*NUMBERS, "positives", "seconds")
            }
            aucs = [v["auc_in_cells"] for v in values if v.get("auc_in_cells") is not None]
            means[title] |= {"auc_in_cells": Mean.of(aucs).to_dict()} if aucs else {}
        parts[f"{name}, {flips:.0%} of {SETS[name]} flipped"] = {"means": means, "runs": mine}
    titles = list(runs[0]["rows"])
    beside = {t: {key: paired(runs, t, PLAIN, key) for key in NUMBERS} for t in titles if t != PLAIN}
    seeds = " ".join(str(s) for s in sorted({run["seed"] for run in runs}))
    origin = {**provenance(), "command": f"python benchmarks/label_flips.py --data FOLDER --seeds {seeds}"}
    answers = [answer(runs, *question) for question in QUESTIONS]
    return {
        "kind": "label flips", "name": "label_flips", **origin, "rule": "least validation loss, every row alike",
        "verdict": sentence(answers[0]), "answers": [{**found, "sentence": sentence(found)} for found in answers],
        "beside_plain": beside, "sets": parts,
    }  # fmt: skip


def page(record: Mapping[str, Any]) -> str:
    """The record as a page in Markdown."""
    lines = ["# Wrong labels in one group", "", *(f"- {found['sentence']}" for found in record["answers"]), ""]
    lines += ["| beside plain, all sets, flips and seeds | accuracy | gap |", "|---|---|---|"]
    for title, apart in record["beside_plain"].items():
        cells = (f"{apart[k]['mean']:+.2f} [{_bound(apart[k]['low'])}, {_bound(apart[k]['high'])}]" for k in NUMBERS)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for name, found in record["sets"].items():
        run = found["runs"][0]
        about = f"{run['n_train']:,} training rows, {run['wrong']:,} labels wrong, {run['n_exemplar']:,} exemplars"
        lines += ["", f"## {name}", "", f"{about}; {len(found['runs'])} seeds, mean ± standard error", ""]
        lines += ["| | accuracy | equal-opportunity gap | AUC of wrong labels in cells | s |", "|---|---|---|---|---|"]
        for title, means in found["means"].items():
            auc = mean_text(means["auc_in_cells"], 3) if "auc_in_cells" in means else "–"
            cells = [mean_text(means[key]) for key in NUMBERS] + [auc, f"{means['seconds']['mean']:.1f}"]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    made = f"{record['device']}, commit {record['commit']}, {record['date'][:10]}."
    return "\n".join([*lines, "", f"{made} Epoch: {record['rule']}.", ""])


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path, help="The folder that holds adult/ and tables/.")
    words.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    words.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    words.add_argument("--runs", type=Path, default=Path("runs/label_flips"), help="The folder of finished runs.")
    words.add_argument("--record", action="store_true", help="Only write the record from the finished runs.")
    words.add_argument("--records", type=Path, default=ROOT / "records")
    given = words.parse_args()
    if given.record:
        record = record_of([json.loads(path.read_text()) for path in sorted(given.runs.glob("*.json"))])
        folder = given.records / f"{record['date'][:10]}_label_flips"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record.json").write_text(json.dumps(record) + "\n")
        (folder / "table.md").write_text(page(record))
        print(record["verdict"])
        return
    if given.data is None:
        words.error("name the folder of data with --data, or ask for --record")
    torch.set_num_threads(1)
    given.runs.mkdir(parents=True, exist_ok=True)
    for seed, name, flips in ((s, n, f) for s in given.seeds for n in given.sets for f in FLIPS):
        path = given.runs / f"{name}_{100 * flips:.0f}_seed{seed}.json"
        if not path.is_file():
            run = one(name, flips, seed, given.data)
            path.write_text(json.dumps(run))
            told = ", ".join(f"{t} {r['accuracy']:.1f}/{r['gap']:.1f}" for t, r in run["rows"].items())
            print(f"{name} {flips:.0%} seed {seed}: {told}", flush=True)


if __name__ == "__main__":
    main()
