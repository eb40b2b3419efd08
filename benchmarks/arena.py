"""Wrong labels on tables and digits: ours beside cleanlab, Data-OOB and KNN-Shapley, and training after cleaning.

Every set has 6,000 rows with planted wrong labels (digits about 1,100), 600 clean validation rows, and trusted
exemplars, which the peers train on too. Reported: AUC, precision at the true count, the error of the count, and time
beyond the training. Training after cleaning is `fairweight clean`'s own table, beside training on the true labels.

    python benchmarks/arena.py --data-dir FOLDER --jobs 13 --minutes 8 --out runs/arena
    python benchmarks/arena.py --finished runs/arena/arena.json --records records

The rule and the constants of metrics/flip_rates.py and runs/held_out.py were chosen on Adult, COMPAS, communities
and digits of seeds 100 to 102, with noise in one group, in one class, uniform and none; bank and credit, and all seeds
here, were kept apart. That held-out opinions are asked for at all was decided after the first record of the arena.

cleanlab comes from its package; Data-OOB and KNN-Shapley are a few lines here, as their package asks for torchvision.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena_data import PART, TABLES, Made, make
from sklearn.metrics import roc_auc_score

from fairweight.apps import train as app
from fairweight.apps._wrong_labels import ranked_labels
from fairweight.apps.clean import clean
from fairweight.data import Dataset
from fairweight.paper.records import keep
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.held_out import held_out_parts
from fairweight.runs.provenance import provenance
from fairweight.runs.statistics import Mean

Array = np.ndarray[Any, Any]
EPOCHS = 15
OURS = "fairweight"
NOISES = ("group", "majority", "minority", "uniform10", "uniform20", "clean")
EXEMPLARS = ("600 even", "600 random", "100 even", "100 random")
MAIN = EXEMPLARS[0]


def measured(
    wrong: Array, suspicion: Array, count: float | None = None, seconds: float | None = None
) -> dict[str, Any]:
    number = int(wrong.sum())
    found: dict[str, Any] = {"count": count, "wrong": number, "seconds": seconds}
    if number:
        first = np.argsort(-suspicion, kind="stable")[:number]
        found |= {"auc": float(roc_auc_score(wrong, suspicion)), "precision": float(wrong[first].mean())}
    return found


def held_out(dataset: Dataset, kind: str, seed: int, folds: int = 3) -> Array:
    """Probabilities of models that have not seen the label; exemplars are trained on in every fold."""
    x, y = _plain(dataset.train)
    ex, ey = _plain(dataset.exemplar)
    part = np.random.default_rng(seed).permutation(len(y)) % folds
    found = np.zeros((len(y), len(dataset.label_names)))
    for fold in range(folds):
        if kind == "LightGBM":
            from lightgbm import LGBMClassifier

            model: Any = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1, random_state=seed)
        else:
            from sklearn.linear_model import LogisticRegression

            model = LogisticRegression(max_iter=300)
        rest = part != fold
        model.fit(np.concatenate([x[rest], ex]), np.concatenate([y[rest], ey]))
        found[np.ix_(~rest, model.classes_)] = model.predict_proba(x[~rest])
    return found


def _plain(part: Any) -> tuple[Array, Array]:
    return part.inputs.reshape(len(part), -1).numpy().astype(np.float64), part.labels.numpy()


def cleanlab_of(y: Array, chances: Array, wrong: Array, started: float) -> dict[str, Any]:
    from cleanlab.count import num_label_issues
    from cleanlab.rank import get_label_quality_scores

    quality = get_label_quality_scores(y, chances)
    return measured(wrong, -quality, float(num_label_issues(y, chances)), time.process_time() - started)


def data_oob(dataset: Dataset, wrong: Array, seed: int, trees: int = 100) -> dict[str, Any]:
    """Kwon and Zou 2023: how often trees that did not draw a row agree with its label."""
    from sklearn.tree import DecisionTreeClassifier

    started = time.process_time()
    x, y = _plain(dataset.train)
    random, agreed, seen = np.random.default_rng(seed), np.zeros(len(y)), np.zeros(len(y))
    for k in range(trees):
        drawn = random.integers(0, len(y), len(y))
        out = np.setdiff1d(np.arange(len(y)), drawn)
        said = DecisionTreeClassifier(random_state=k, max_features="sqrt").fit(x[drawn], y[drawn]).predict(x[out])
        agreed[out] += said == y[out]
        seen[out] += 1
    return measured(wrong, -agreed / np.maximum(seen, 1), None, time.process_time() - started)


def knn_shapley(dataset: Dataset, wrong: Array, k: int = 10) -> dict[str, Any]:
    """Jia and others 2019: exact Shapley values for nearest neighbours; the exemplars are what is to be predicted."""
    started = time.process_time()
    x, y = _plain(dataset.train)
    ex, ey = _plain(dataset.exemplar)
    total, n = np.zeros(len(y)), len(y)
    place = np.arange(1, n)
    for at, label in zip(ex, ey, strict=True):
        order = np.argsort(((x - at) ** 2).sum(axis=1), kind="stable")
        right = (y[order] == label).astype(np.float64)
        steps = (right[:-1] - right[1:]) / k * np.minimum(k, place) / place
        value = np.empty(n)
        value[-1] = right[-1] / n
        value[:-1] = value[-1] + steps[::-1].cumsum()[::-1]
        total[order] += value
    return measured(wrong, -total, None, time.process_time() - started)


def ours(folder: RunFolder, made: Made) -> dict[str, Any]:
    """What a finished run says of its labels: with trust and without, and whether scores add anything."""
    weights, metrics = folder.read_weights(), folder.read(METRICS)
    wrong = weights["label"].astype(str).to_numpy() != made.true[weights["row"].to_numpy()]
    started = time.process_time()
    ranked = ranked_labels(folder, weights, trust=True)
    seconds = time.process_time() - started
    whole, *parts = ranked.counts()
    entry = measured(wrong, -ranked.table["rank"].to_numpy().astype(float), whole["wrong"], seconds)
    entry |= {"low": whole["low"], "high": whole["high"], "accuracy": metrics["accuracy"], "tprd": metrics["tprd"]}
    entry["parts"] = [_covers(part, weights, wrong) for part in parts]
    entry["looks_wrong"] = int(ranked.table["suspected"].sum())
    found = {OURS: entry}
    alone = ranked_labels(folder, weights, trust=False)
    found[f"{OURS}, nothing trusted"] = measured(wrong, -alone.table["rank"].to_numpy().astype(float))
    margin = -weights["mean_probability_margin"].to_numpy(dtype=float)
    found["margin over training"] = measured(wrong, margin, float((margin > 0).sum()))
    posterior = ranked.table["posterior"].to_numpy()
    logit = np.log(np.maximum(posterior, 1e-9) / np.maximum(1 - posterior, 1e-9))
    cell = weights["label"].astype(str) + weights["group"].astype(str)
    inside = weights["score"].groupby(cell).rank(pct=True).to_numpy()
    found["low score"] = measured(wrong, -weights["score"].to_numpy(dtype=float))
    found["low score within its cell"] = measured(wrong, -inside)
    found["posterior and score within its cell"] = measured(wrong, logit - 2 * (inside - 0.5))
    return found


def _covers(part: dict[str, Any], weights: Any, wrong: Array) -> bool:
    truth = wrong[(weights[part["by"]].astype(str) == part["name"]).to_numpy()].sum()
    return bool(part["low"] <= truth <= part["high"])


def prepared_for(made: Made, csv: Path, seed: int, method: str = "forml") -> Any:
    csv.parent.mkdir(parents=True, exist_ok=True)
    made.frame.to_csv(csv, index=False)
    options: dict[str, Any] = {"split": {"column": PART}}
    return app.prepare(
        app.Wanted(str(csv), made.table.label, made.table.group, method, seed, options, {"epochs": EPOCHS})
    )


def ranking(name: str, noise: str, exemplars: str, seed: int, out: str, data_dir: str) -> dict[str, Any]:
    """Every method on one set."""
    size, draw = exemplars.split()
    path = Path(out) / f"{name}_{noise}_{size}_{draw}_{seed}"
    made = make(name, noise, seed, data_dir, exemplars=int(size), draw=draw)
    prepared = prepared_for(made, path.with_suffix(".csv"), seed)
    done = app.train(prepared, path, baseline=False)
    folder, dataset = RunFolder(done.result.folder.path), prepared.dataset
    found = ours(folder, made)
    started = time.process_time()
    held_out_parts(dataset, folder.read(RUN)["data"])  # the run has made them: what they cost
    found[OURS]["seconds"] += time.process_time() - started
    y = dataset.train.labels.numpy()
    wrong = np.array(dataset.label_names, dtype=object)[y] != made.true[dataset.rows["train"].numpy()]
    for kind in ("LightGBM", "logistic"):
        started = time.process_time()
        found[f"cleanlab, {kind}"] = cleanlab_of(y, held_out(dataset, kind, seed), wrong, started)
    if exemplars == MAIN:
        found["Data-OOB"] = data_oob(dataset, wrong, seed)
        found["KNN-Shapley"] = knn_shapley(dataset, wrong)
    return found


def cleaning(name: str, noise: str, exemplars: str, seed: int, out: str, data_dir: str, seeds: int) -> dict[str, Any]:
    """`fairweight clean` on one set, FORML on its true labels, and plain training with the exemplars added to train."""
    size, draw = exemplars.split()
    path = Path(out) / f"clean_{name}_{noise}_{size}_{draw}_{seed}"
    made = make(name, noise, seed, data_dir, exemplars=int(size), draw=draw)
    done = app.train(prepared_for(made, path.with_suffix(".csv"), seed), path, baseline=False)
    found = clean(done.result.folder.path, path.with_name(f"{path.name}_ways"), trust=True, seeds=seeds, jobs=1)
    truth = Made(made.frame.assign(**{made.table.label: made.true}), made.table, made.true)
    right = prepared_for(truth, path.with_name(f"{path.name}_true.csv"), seed)
    best = app.train(right, path.with_name(f"{path.name}_true"), baseline=False)
    numbers = {key: 100 * best.result.folder.read(METRICS)[key] for key in ("accuracy", "tprd")}
    trusted = made.frame[made.frame[PART] == "exemplar"].assign(**{PART: "train"})
    more = Made(pd.concat([made.frame, trusted], ignore_index=True), made.table, made.true)
    csv = path.with_name(f"{path.name}_added.csv")
    added = [
        app.train(prepared_for(more, csv, k, "uniform"), csv.with_suffix(f".{k}"), baseline=False) for k in range(3)
    ]
    control = {key: Mean.of([100 * one.result.folder.read(METRICS)[key] for one in added]).to_dict() for key in numbers}
    kept = found.to_dict()
    kept.pop("folder")
    for arms in kept["methods"].values():
        for arm in arms.values():
            arm.pop("seeds")
    return {**kept, "true_labels_forml": numbers, "uniform_with_exemplars": control}


def job(task: dict[str, Any], out: str, data_dir: str) -> tuple[dict[str, Any], dict[str, Any]]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("fairweight").addHandler(logging.NullHandler())
    asked = {key: value for key, value in task.items() if key != "kind"}
    if task["kind"] == "cleaning":
        return task, cleaning(**asked, out=out, data_dir=data_dir, seeds=5)
    return task, ranking(**asked, out=out, data_dir=data_dir)


def tasks(sets: list[str], noises: list[str], seeds: range, exemplars: list[str]) -> list[dict[str, Any]]:
    """The most telling first; digits has no group, and about 15 exemplars of each label."""
    found = [
        {"kind": "ranking", "name": name, "noise": noise, "exemplars": draw, "seed": seed}
        for draw in exemplars
        for seed in seeds
        for noise in noises
        for name in sets
        if name != "digits" or (noise != "group" and draw == MAIN)
    ]
    again = [
        {"kind": "cleaning", "name": name, "noise": noise, "exemplars": MAIN, "seed": seeds[0]}
        for noise in noises
        for name in sets
        if name != "digits"
    ]
    main = [task for task in found if task["exemplars"] == MAIN]
    return [*main, *again, *(task for task in found if task["exemplars"] != MAIN)]


def run_tasks(asked: argparse.Namespace, wanted: list[dict[str, Any]], file: Path) -> None:
    """Carry out what is not yet in the file, so that a benchmark that was stopped goes on."""
    kept = json.loads(file.read_text())["entries"] if file.is_file() else []
    about = provenance()
    about["versions"] |= {name: importlib.metadata.version(name) for name in ("cleanlab", "lightgbm")}
    have = [entry["task"] for entry in kept]
    left, ends = [task for task in wanted if task not in have], time.monotonic() + 60 * asked.minutes
    file.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.jobs) as pool:
        queue = iter(left)
        running = {pool.submit(job, task, asked.out, asked.data_dir) for task in islice(queue, asked.jobs)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            task, found = done.result()
            kept.append({"task": task, "found": found})
            print(f"{len(kept)} of {len(have) + len(left)}: {task}", flush=True)
            file.with_suffix(".part").write_text(json.dumps({"about": about, "entries": kept}))
            file.with_suffix(".part").replace(file)
            following = next(queue, None) if time.monotonic() < ends else None
            if following is not None:
                running.add(pool.submit(job, following, asked.out, asked.data_dir))


def record_of(kept: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of the record: one per set, noise and draw of exemplars, with every seed; and the tables of cleaning."""
    rows: dict[str, dict[str, Any]] = {}
    cleaned = []
    for entry in sorted(kept, key=lambda entry: json.dumps(entry["task"], sort_keys=True)):
        task, found = entry["task"], entry["found"]
        about = {"set": task["name"], "noise": task["noise"], "exemplars": task["exemplars"]}
        if task["kind"] == "cleaning":
            cleaned.append({**about, "seed": task["seed"], **found})
        else:
            row = rows.setdefault(json.dumps(about), {**about, "seeds": {}})
            row["seeds"][str(task["seed"])] = found
    for row in rows.values():
        row["means"] = means_of(row["seeds"])
    return {"rows": list(rows.values()), "cleaning": cleaned}


def images_of(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per set, noise and training, with every seed and the means of what all seeds have."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in kept:
        key = tuple(entry["task"][name] for name in ("name", "noise", "method"))
        row = rows.setdefault(key, dict(zip(("set", "noise", "method"), key, strict=True)) | {"seeds": {}})
        row["seeds"][str(entry["task"]["seed"])] = entry["found"]
    for row in rows.values():
        every = list(row["seeds"].values())
        row["means"] = {
            method: {
                key: float(np.mean([one[method][key] for one in every])) for key in ("auc", "precision") if key in first
            }
            for method, first in every[0].items()
        }
    return [row for row in rows.values() if all("auc" in mean for mean in row["means"].values())]


def means_of(seeds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for method in next(iter(seeds.values())):
        entries = [seed[method] for seed in seeds.values()]
        found[method] = {
            key: Mean.of([float(entry[key]) for entry in entries]).to_dict()
            for key in ("auc", "precision", "count", "wrong", "seconds", "accuracy", "tprd", "looks_wrong")
            if all(entry.get(key) is not None for entry in entries)
        }
        if all("low" in entry for entry in entries):
            inside = [float(entry["low"] <= entry["wrong"] <= entry["high"]) for entry in entries]
            found[method]["covered"] = Mean.of(inside).to_dict()
            every = [float(np.mean(entry["parts"])) for entry in entries if entry["parts"]]
            found[method]["covered_parts"] = Mean.of(every).to_dict()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="shared/data")
    parser.add_argument("--sets", default=",".join(TABLES))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--exemplars", default=",".join(EXEMPLARS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="no set is begun after so many")
    parser.add_argument("--out", default="runs/arena", help="folder of the runs")
    parser.add_argument("--results", type=Path, help="file of what was found; default: arena.json in the folder")
    parser.add_argument("--finished", type=Path, nargs="+", help="make the record of such files, and run nothing")
    parser.add_argument("--images", type=Path, help="what arena_images.py found, for the same record")
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    if asked.finished is None:
        wanted = tasks(asked.sets.split(","), asked.noises.split(","), seeds, asked.exemplars.split(","))
        run_tasks(asked, wanted, asked.results or Path(asked.out) / "arena.json")
        return
    files = [json.loads(file.read_text()) for file in asked.finished]
    found = record_of([entry for file in files for entry in file["entries"]])
    if asked.images is not None:
        found["images"] = images_of(json.loads(asked.images.read_text())["entries"])
    about = files[-1]["about"]
    about["command"] = f"python benchmarks/arena.py --first-seed {asked.first_seed} --seeds {asked.seeds} --jobs 13"
    setting = (
        f"up to 6,000 train rows; FORML, MLP and step by the defaults of the data, {EPOCHS} epochs; 3 folds for "
        "cleanlab; cleaning over 5 seeds"
    )
    print(keep({"kind": "arena", "name": "arena", "setting": setting, **found, **about}, asked.records))


if __name__ == "__main__":
    main()
