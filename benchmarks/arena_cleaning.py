"""Training on labels that were cleaned, exemplars used plainly, and the fragile case: accuracy and gap on tables.

cleaning: `fairweight clean` on a run with planted wrong labels, beside training on the true labels: by plain training,
and by FORML, too, with noise in one group. Half of the test rows give the verdict, as a user has it;
the other half shows what following it does on rows not yet seen.
scores: whether the scores of a FORML run, tied within cells or each sample's own, add to the posterior's ranking.
controls: plain training, the exemplars added to it, fine-tuning on them after it, and FORML, on the same noisy rows.
fragile: credit card default, a fifth of men's labels flipped, 600 exemplars drawn at random; of the last seed what
`fairweight train` chooses, too.

    python benchmarks/arena_cleaning.py --data-dir FOLDER --kinds cleaning,scores,fragile --out runs/arena_cleaning
    python benchmarks/arena_cleaning.py --data-dir FOLDER --kinds controls --seeds 5 --out runs/arena_controls
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import arena_data
import numpy as np
from arena import MAIN, measured, ours, prepared_for
from arena_data import Made, make
from arena_tasks import carry_out, parser_of
from sklearn.linear_model import LogisticRegression

import fairweight.runs.run
from fairweight.apps import train as app
from fairweight.apps.clean import Cleaned, clean
from fairweight.apps.suspects import ranked_labels
from fairweight.apps.trainings import HARMS, Compared, Trainings, apart
from fairweight.metagradient.passes import predicted
from fairweight.metrics import group_table
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.held_out import held_out_parts
from fairweight.runs.pool import run_all
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean

SEEDS = 3  # trainings
TESTED = 8_000  # rows of test
TABLES = ("adult", "bank", "credit")
NUMBERS = ("accuracy", "tprd")
HALVES = {"judged": slice(0, None, 2), "fresh": slice(1, None, 2)}  # of the test rows, which are in random order


def numbers_on(folder: RunFolder, part: slice) -> dict[str, float]:
    """Accuracy and gap in % on some of the test rows."""
    logits, labels, groups = folder.read_logits("test")
    table = group_table(
        labels[part].numpy(), predicted(logits)[part].numpy(), None if groups is None else groups[part].numpy()
    )
    return {"accuracy": 100 * table.accuracy, "tprd": 100 * table.tprd, "max_fnr": 100 * table.max_fnr}


def runs_of(pool: Path) -> dict[tuple[str, str], dict[str, RunFolder]]:
    """Runs that `clean` left, by method, way of cleaning and seed."""
    found: dict[tuple[str, str], dict[str, RunFolder]] = {}
    for folder in (RunFolder(path.parent) for path in sorted(pool.glob("*/run.json"))):
        spec = folder.read_spec()
        listed = spec.rows.get("train", {}).get("file", "")
        arm = "weighted" if spec.weights else "relabelled" if "labels" in spec.rows else "as-given"
        arm = {"kept.txt": "dropped", "": arm}.get(listed, "random-drop")
        method = "uniform" if spec.method == "given" else spec.method
        found.setdefault((method, arm), {})[str(spec.seed)] = folder
    return found


def made_for(task: dict[str, Any], data_dir: str, test: int) -> Made:
    size, draw = task["exemplars"].split()
    arena_data.TEST = test
    return make(task["name"], task["noise"], task["seed"], data_dir, exemplars=int(size), draw=draw)


def cleaning(task: dict[str, Any], path: Path, data_dir: str) -> dict[str, Any]:
    made = made_for(task, data_dir, TESTED)
    prepared = prepared_for(made, path.with_suffix(".csv"), task["seed"], task["method"])
    done = app.train(prepared, path, baseline=False)
    fairweight.runs.run.held_out_parts = lambda dataset, data: {}  # nobody asks the runs below for opinions
    found = clean(
        done.result.folder.path, path.with_name(f"{path.name}_ways"), trust=True, trainings=Trainings(SEEDS, jobs=1)
    )
    runs = runs_of(found.out)
    truth = Made(made.frame.assign(**{made.table.label: made.true}), made.table, made.true)
    for method in found.compared.seeds:
        first = prepared_for(truth, path.with_name(f"{path.name}_true.csv"), 0, method)
        specs = {str(seed): first.spec.with_(seed=seed) for seed in range(SEEDS)}
        outcomes = run_all(specs.values(), path.with_name(f"{path.name}_truth"), jobs=1)
        done = {seed: RunFolder(outcomes[spec.fingerprint].folder) for seed, spec in specs.items()}
        runs[method, "true labels"] = done
    fairweight.runs.run.held_out_parts = held_out_parts
    parts = {}
    for half, part in HALVES.items():
        seeds: dict[str, Any] = {}
        rows: dict[str, Any] = {}
        for (method, arm), each in runs.items():
            seeds.setdefault(method, {})[arm] = {seed: numbers_on(folder, part) for seed, folder in each.items()}
            rows.setdefault(method, {})[arm] = apart(each, runs[method, "as-given"], part)
        parts[half] = replace(found, compared=Compared("as-given", seeds, rows))
    chosen = parts["judged"].recommended
    return {
        "suspected": found.suspected,
        "dropped": found.dropped,
        "relabelled": found.relabelled,
        "advice": parts["judged"].advice(),
        "recommended": chosen,
        **{half: summary(part) for half, part in parts.items()},
        "seeds": {half: part.compared.seeds for half, part in parts.items()},
    }


def summary(found: Cleaned) -> dict[str, Any]:
    """Means of each way over seeds, its difference from the labels as given, and whether it harms."""
    return {
        method: {
            arm: {
                "means": {n: Mean.of([v[n] for v in seeds.values()]).to_dict() for n in NUMBERS},
                "from_as_given": {n: found.compared.difference(method, arm, n) for n in NUMBERS},
                "over_test_rows": found.compared.rows[method][arm],
                "harms": arm != "as-given" and method in found.compared.methods(arm, HARMS),
            }
            for arm, seeds in ways.items()
        }
        for method, ways in found.compared.seeds.items()
    }


def controls(task: dict[str, Any], path: Path, data_dir: str) -> dict[str, Any]:
    made = made_for(task, data_dir, 4_000)
    fairweight.runs.run.held_out_parts = lambda dataset, data: {}
    forml: Spec = prepared_for(made, path.with_suffix(".csv"), task["seed"]).spec
    plain = forml.with_(method="uniform", method_options={})
    specs = {
        "plain training": plain,
        "exemplars added": plain.with_(rows={"train": {"exemplars": "added"}}),
        "fine-tuned on exemplars": plain.with_(
            rows={"train": {"exemplars": "only"}}, start={"runs": [plain.to_dict()]}, lr=plain.lr / 10
        ),
        "FORML": forml,
    }
    outcomes = run_all(specs.values(), path, jobs=1)
    fairweight.runs.run.held_out_parts = held_out_parts
    return {name: numbers(RunFolder(outcomes[spec.fingerprint].folder)) for name, spec in specs.items()}


def numbers(folder: RunFolder) -> dict[str, float]:
    return {name: 100 * folder.read(METRICS)[name] for name in NUMBERS}


def fragile(task: dict[str, Any], path: Path, data_dir: str) -> dict[str, Any]:
    made = made_for(task, data_dir, 4_000)
    found: dict[str, Any] = {}
    methods: dict[str, str | None] = {"plain training": "uniform", "FORML": "forml"}
    if task["judged"]:
        methods["fairweight train"] = None
    for title, method in methods.items():
        prepared = prepared_for(made, path.with_suffix(".csv"), task["seed"], method)
        done = app.train(prepared, path.with_name(f"{path.name}_{method or 'judged'}"), baseline=False)
        found[title] = numbers(done.result.folder)
        if method is None:
            found[title] |= {key: done.result.folder.read(METRICS)[key] for key in ("verdict", "chosen")}
        elif method == "forml":
            found["suspects"] = ours(done.result.folder, made)["fairweight"]
    return found


def scores(task: dict[str, Any], path: Path, data_dir: str) -> dict[str, Any]:
    """Rankings by the posterior, by a score, by a score within its cell, by the mean rank of both, and fitted.

    Fitted: a logistic model of the truth, which nobody has: the most that scores could add.
    """
    made = made_for(task, data_dir, 4_000)
    spec: Spec = prepared_for(made, path.with_suffix(".csv"), task["seed"]).spec
    specs = {"tied": spec, "own": spec.with_(method_options={**spec.method_options, "tie": None})}
    outcomes = run_all(specs.values(), path, jobs=1)
    found: dict[str, Any] = {}
    for title, one in specs.items():
        folder = RunFolder(outcomes[one.fingerprint].folder)
        weights = folder.read_weights()
        wrong = weights["label"].astype(str).to_numpy() != made.true[weights["row"].to_numpy()]
        table = ranked_labels(folder, weights, trust=True).table
        posterior = table["posterior"].rank(pct=True)
        cell = weights["label"].astype(str) + weights["group"].astype(str)
        low = {"score": -weights["score"], "score within its cell": -weights["score"].groupby(cell).rank(pct=True)}
        found["posterior"] = measured(wrong, posterior.to_numpy())
        for name, values in low.items():
            found[f"{title} {name}"] = measured(wrong, values.to_numpy(dtype=float))
            both = posterior.to_numpy() + values.rank(pct=True).to_numpy()
            found[f"posterior and {title} {name}"] = measured(wrong, both)
        odds = np.log(table["posterior"].clip(1e-6, 1 - 1e-6) / (1 - table["posterior"]).clip(1e-6, 1)).to_numpy()
        known = np.stack([odds, *(values.rank(pct=True).to_numpy() for values in low.values())], axis=1)
        best = LogisticRegression(C=1e3).fit(known, wrong).decision_function(known)
        found[f"posterior and {title} scores, fitted to the truth"] = measured(wrong, best)
    return found


KINDS = {"cleaning": cleaning, "scores": scores, "controls": controls, "fragile": fragile}


def job(task: dict[str, Any], out: str, data_dir: str) -> dict[str, Any]:
    path = Path(out) / "_".join(str(value).replace(" ", "-") for value in task.values())
    return KINDS[task["kind"]](task, path, data_dir)


def tasks(seeds: range, kinds: list[str]) -> list[dict[str, Any]]:
    noises = {"cleaning": ("group", "group40", "uniform20"), "controls": ("group", "minority", "uniform20")}
    noises |= {"scores": ("group", "uniform20")}
    asked = [(kind, name, noise, MAIN) for kind in noises for noise in noises[kind] for name in TABLES]
    asked += [("cleaning", *one, MAIN) for one in (("digits", "one-class"), ("nursery", "uniform40"))]
    asked += [("fragile", "credit", "group", "600 random")]
    names = ("kind", "name", "noise", "exemplars")
    found = [dict(zip(names, one, strict=True)) | {"seed": k} for k in seeds for one in asked if one[0] in kinds]
    for task in found:
        if task["kind"] == "cleaning":
            task["method"] = "forml" if task["noise"] == "group" else "uniform"
        elif task["kind"] == "fragile":
            task["judged"] = task["seed"] == seeds[-1]  # what `fairweight train` chooses takes longest
    return found


def main() -> None:
    parser = parser_of(__doc__, "runs/arena_cleaning")
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    carry_out(job, tasks(seeds, asked.kinds.split(",")), asked)


if __name__ == "__main__":
    main()
