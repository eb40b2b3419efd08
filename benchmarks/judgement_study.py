r"""The study behind the record `judgement`, on many cores, one job after the other in time.

    PYTHONPATH=src python benchmarks/judgement_study.py --data FOLDER --plan ours --out part1.json
    PYTHONPATH=src python benchmarks/judgement_study.py --data FOLDER --plan peers --done part1.json --out part2.json
    PYTHONPATH=src python benchmarks/judgement_study.py --unpack part1.json part2.json  # into runs/

What a file of --done holds is not run again. `ours` and `ours-groups` come from one search: thresholds by group are
candidates beside the others, so the model that is blind to groups is the choice among the rest.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
SEEDS = tuple(range(20, 30))
PLANS = {  # by method: how many seeds
    "ours": {"ours": 10},
    "peers": {
        "plain-mlp": 10, "plain-trees": 10, "plain-lightgbm": 10, "plain-logistic": 10, "reweighing-trees": 10,
        "reweighing-lightgbm": 10, "reweighing-logistic": 10, "thresholds-equal-opportunity": 10, "oxonfair": 10,
        "eg-logistic-equal-opportunity": 5, "ours-0.1": 5, "fairret": 5, "eg-lightgbm-equal-opportunity": 3,
    },
}  # fmt: skip


def planned(plan: str, sets: list[str], seeds: list[int]) -> Iterator[tuple[str, int, str]]:
    """Every run of a plan, the first seeds of all first."""
    for place, seed in enumerate(seeds):
        for method, count in PLANS[plan].items():
            if place < count:
                yield from ((name, seed, method) for name in sets)


def one(job: tuple[str, int, str], data: str, until: float, commit: str) -> list[dict[str, Any]]:
    """Run one job, unless time is over."""
    if time.time() > until:
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    from judgement import measure
    from judgement_sets import ROWS, task

    name, seed, method = job
    found = task(name, seed, Path(data))
    runs = searched(found) if method == "ours" else [measure(found, method)]
    return [{**run, "rows": ROWS, "commit": commit or run["commit"]} for run in runs]


def searched(found: Any) -> list[dict[str, Any]]:
    """Search once with thresholds by group among the candidates; hand over the best of all, and the best blind one."""
    from judgement import origin
    from judgement_numbers import counts_of, numbers_of
    from judgement_sets import loaded

    from fairweight.apps.deliver import gone_wrong, search
    from fairweight.apps.judge import Goal, TrainRequest, choose
    from fairweight.apps.verdict import verdict_on
    from fairweight.metagradient.passes import predicted
    from fairweight.metrics.criterion import criterion
    from fairweight.runs.learners import Learner
    from fairweight.runs.shift import shifted
    from fairweight.training.predict import logits

    started, before = time.monotonic(), time.process_time()
    dataset = loaded(found.frame, found.seed)
    goal = Goal(criterion("equal-opportunity"))
    every = search(dataset, TrainRequest("frame", groups_at_prediction=True), goal, seed=found.seed)
    blind = [k for k, one in enumerate(every.candidates) if one.shift is None]
    plain = every.judgements[list(every.candidates).index(every.plain)].score
    place = choose(plain, [every.judgements[k] for k in blind], goal)
    chosen = every.plain if place is None else every.candidates[blind[place]]
    if chosen is every.chosen or (every.kept_plain and place is None):
        fitted = every.fitted
    elif chosen is every.plain:
        fitted = every.fitted_plain
    else:
        fitted = Learner(chosen.learner, every.dataset, found.seed).whole(chosen.way, chosen.epoch)
        if gone_wrong(fitted, every.dataset, every.judgements[list(every.candidates).index(chosen)].score):
            chosen, fitted = every.plain, every.fitted_plain
    took = {"seconds": round(time.monotonic() - started, 2), "cpu_seconds": round(time.process_time() - before, 2)}
    runs = []
    test = dataset.test
    for method, search_ in (("ours", replace(every, chosen=chosen, fitted=fitted)), ("ours-groups", every)):
        first, last = (
            shifted(logits(one.model, test), test.groups, one.shift) for one in (search_.fitted_plain, search_.fitted)
        )
        said = predicted(last).numpy()
        about = {"chosen": search_.chosen.title, "plain": search_.plain.title, "kept_epoch": search_.fitted.epoch}
        about |= {"kept_plain": search_.kept_plain, "notes": search_.notes, "why": search_.why}
        meaning = dataset.preprocessing.meaning
        told = verdict_on(meaning, goal, test.labels, test.groups, first, last, **about).to_dict()
        keys = ("verdict", "chosen", "kept_epoch", "criterion", "gap_before", "gap_after", "accuracy_before",
                "accuracy_after")  # fmt: skip
        names = {c.title: [round(v, 4) for v in (j.score.accuracy, j.score.gap, j.change[2])] for c, j in
                 zip(search_.candidates, search_.judgements, strict=True)}  # fmt: skip
        numbers = numbers_of(counts_of(found.test_labels, said, found.test_groups), found.seed)
        verdict = {key: told[key] for key in keys} | {"judged": names if method == "ours" else {}}
        runs.append({**origin(found, method), **took, **numbers, "verdict": verdict})
    return runs


def main() -> None:
    """Read the command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", help="The folder that holds adult/, compas/ and tables/.")
    words.add_argument("--plan", choices=PLANS, default="ours")
    words.add_argument("--sets", nargs="+")
    words.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    words.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    words.add_argument("--minutes", type=float, default=8.0, help="Begin no run after so many.")
    words.add_argument("--until", type=float, help="The same as a time, in seconds since 1970.")
    words.add_argument("--done", nargs="*", type=Path, default=[], help="Files of finished runs.")
    words.add_argument("--commit", default="", help="Of the source, where there is no repository.")
    words.add_argument("--out", type=Path, default=Path("judgement.json"))
    words.add_argument("--unpack", nargs="+", type=Path, help="Write the runs of these files into --runs.")
    words.add_argument("--runs", type=Path, default=Path("runs"))
    given = words.parse_args()
    from judgement import path_of
    from judgement_sets import SETS

    if given.unpack:
        for run in [run for path in given.unpack for run in json.loads(path.read_text())]:
            path = path_of(given.runs / "judgement", run["set"], run["seed"], run["method"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(run))
        return
    finished = [run for path in given.done if path.is_file() for run in json.loads(path.read_text())]
    have = {(run["set"], run["seed"], run["method"]) for run in finished if "failed" not in run}
    sets = given.sets or list(SETS)
    jobs = [job for job in planned(given.plan, sets, given.seeds) if job not in have]
    started, found = time.time(), []
    until = given.until or started + 60 * given.minutes
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, mp_context=context) as pool:
        waiting = [pool.submit(one, job, given.data, until, given.commit) for job in jobs]
        for future in as_completed(waiting):
            found += future.result()
            given.out.write_text(json.dumps(found))
            if found and len(found) % 20 < 2:
                print(f"{len(found)} of {len(jobs)} after {time.time() - started:.0f} s", flush=True)
    print(f"{len(found)} runs, {len(jobs)} jobs", flush=True)


if __name__ == "__main__":
    main()
