"""How well wrong labels are found, beside cleanlab on the same model's outputs.

MNIST (or digits) with the paper's corruption (20 % of all labels set to 2), uniform flips and pairwise flips; FORML and
plain training. Each model's finished run is ranked by `fairweight suspects`' rule, by each of its three measures alone,
and by cleanlab's scores of the same model's probabilities. cleanlab asks for probabilities of models that have not seen
the sample: --folds adds that, at the cost of as many trainings.

    python benchmarks/suspects.py --data-dir FOLDER --seeds 3 --folds 3 --records records
    python benchmarks/suspects.py --page docs/audit.md      # put the records' tables there

The rule was chosen on other seeds and sets than those of the records: MNIST of seed 0, digits of seeds 100 to 104,
Adult and COMPAS of seed 100.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from newest_record import newest, placed
from sklearn.metrics import roc_auc_score

from fairweight import FitOptions, Uniform, fit
from fairweight.apps.suspects import ranked_labels
from fairweight.data import Dataset
from fairweight.paper.records import keep
from fairweight.runs.build import network_for, optimizer_for
from fairweight.runs.folder import RunFolder
from fairweight.runs.provenance import provenance
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import Mean
from fairweight.training.predict import logits
from fairweight.types import Batch

CORRUPTIONS = {
    "paper": "one-class:label=2,fraction=0.2",
    "uniform flips": "uniform-flips:fraction=0.2",
    "pairwise flips": "pair-flips:fraction=0.2",
}
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def spec_for(source: str, corruption: str, method: str, seed: int, epochs: int) -> Spec:
    size = 500 if source == "mnist" else 15
    data = {
        "corruptions": [corruption],
        "split": {"validation": 0.0, **({} if source == "mnist" else {"test": 0.25})},
        "exemplar": {"source": "train", "size": size},
    }
    network = {"name": "mlp", "hidden": [256, 256]}
    return Spec(source, data=data, network=network, method=method, epochs=epochs, batch_size=128, seed=seed)


def probabilities(folder: RunFolder, spec: Spec, dataset: Dataset) -> np.ndarray[Any, Any]:
    model = network_for(dataset.preprocessing, spec.network)
    folder.read_model(model)
    return logits(model, dataset.train).softmax(dim=1).double().numpy()


def out_of_fold(spec: Spec, dataset: Dataset, folds: int) -> np.ndarray[Any, Any]:
    """Probabilities of plain trainings that left the sample out."""
    train = dataset.train
    assert isinstance(train, Batch)
    part = torch.randperm(len(train), generator=torch.Generator().manual_seed(spec.seed)) % folds
    found = torch.zeros(len(train), len(dataset.label_names), dtype=torch.float64)
    for fold in range(folds):
        torch.manual_seed(spec.seed)
        model = network_for(dataset.preprocessing, spec.network)
        rest = train.take(part != fold)
        rest = Batch(rest.inputs, rest.labels)
        optimizer = optimizer_for(model, spec, "cpu")
        options = FitOptions(batch_size=spec.batch_size, seed=spec.seed)
        fit(model, optimizer, Uniform(model, len(rest)), rest, epochs=spec.epochs, options=options)
        left = torch.nonzero(part == fold).flatten()
        found[left] = logits(model, train.take(left)).softmax(dim=1).double()
    return found.numpy()


def measured(wrong: np.ndarray[Any, Any], suspicion: np.ndarray[Any, Any]) -> dict[str, float]:
    count = int(wrong.sum())
    first = np.argsort(-suspicion, kind="stable")[:count]
    return {"auc": float(roc_auc_score(wrong, suspicion)), "precision": float(wrong[first].mean())}


def by_cleanlab(labels: np.ndarray[Any, Any], chances: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    from cleanlab.rank import get_label_quality_scores

    return {name: -get_label_quality_scores(labels, chances, method=name) for name in CLEANLAB}


def one_run(spec: Spec, folder: Path, data_dir: str | None, folds: int) -> dict[str, dict[str, float]]:
    dataset = dataset_for(spec, data_dir)
    result = run(spec, folder, data_dir=data_dir, dataset=dataset)
    weights = result.folder.read_weights()
    wrong = (weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy()
    found = {
        "fairweight": measured(wrong, -ranked_labels(result.folder, weights).table["rank"].to_numpy().astype(float))
    }
    for name, sign in (("score", -1), ("ema_loss", 1), ("mean_margin", -1), ("mean_probability_margin", -1)):
        values = weights[name].to_numpy(dtype=float)
        if not np.isnan(values).any():
            found[f"{name} alone"] = measured(wrong, sign * values)
    if importlib.util.find_spec("cleanlab") is not None:
        labels = dataset.train.labels.numpy()
        for name, values in by_cleanlab(labels, probabilities(result.folder, spec, dataset)).items():
            found[f"cleanlab {name}, same model"] = measured(wrong, values)
        if folds and spec.method == "uniform":
            for name, values in by_cleanlab(labels, out_of_fold(spec, dataset, folds)).items():
                found[f"cleanlab {name}, {folds} more trainings"] = measured(wrong, values)
    return found


def with_error(mean: dict[str, Any], times: float, digits: int) -> str:
    """Mean ± standard error; one that rounds to nothing is not nothing."""
    error, least = times * mean["standard_error"], 10**-digits
    return f"{times * mean['mean']:.{digits}f} ± " + (f"{error:.{digits}f}" if error >= least / 2 else f"<{least:g}")


def table(record: dict[str, Any]) -> str:
    """The record as Markdown: AUC and precision at the true count, mean over seeds; the best of cleanlab's scores."""
    by_folds = any(name.endswith(" more trainings") for row in record["rows"] for name in row["means"])
    heads = [
        "wrong labels",
        "method",
        "fairweight",
        "cleanlab, same model",
        *(["cleanlab, held-out models"] * by_folds),
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]

    def cell(means: dict[str, Any], among: list[str]) -> str:
        if not among:
            return "–"
        best = max(among, key=lambda name: means[name]["auc"]["mean"])
        return f"{with_error(means[best]['auc'], 1, 4)} / {with_error(means[best]['precision'], 100, 1)} %"

    for row in record["rows"]:
        means = row["means"]
        same = [name for name in means if name.endswith(", same model")]
        held = [name for name in means if name.endswith(" more trainings")]
        cells = [cell(means, ["fairweight"]), cell(means, same), *([cell(means, held)] * by_folds)]
        lines.append(f"| {row['corruption']} | {row['method']} | {' | '.join(cells)} |")
    seeds = list(record["rows"][0]["seeds"])
    over = f"mean ± standard error over the seeds {seeds[0]} to {seeds[-1]}"
    how = (
        f"{record['setting']}; AUC / precision at the true count, {over}; of cleanlab's three scores, each row's best."
    )
    source = f"`{record['command']}`; {record['device']}; commit {record['commit']}."
    return "\n".join([*lines, "", f"{how} {source}"])


def fill(page: Path, records: Path) -> None:
    """Replace what stands between each pair of marks by the table of the record that they name."""
    text = page.read_text(encoding="utf-8")
    for name in ("suspects", "suspects_digits", "suspects_digits_long"):
        text = placed(text, name, table(newest(records, name)[1]))
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default="mnist", choices=("mnist", "digits"))
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--folds", type=int, default=0, help="held-out trainings for cleanlab, 0 for none")
    parser.add_argument("--out", default="runs/suspects")
    parser.add_argument("--records", default="records")
    parser.add_argument("--name", default="suspects", help="of the record")
    parser.add_argument("--page", type=Path, help="only put the newest record's table into this page")
    asked = parser.parse_args()
    if asked.page is not None:
        fill(asked.page, Path(asked.records))
        return
    rows: list[dict[str, Any]] = []
    for title, corruption in CORRUPTIONS.items():
        for method in ("forml", "uniform"):
            seeds: dict[str, dict[str, dict[str, float]]] = {}
            for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
                spec = spec_for(asked.source, corruption, method, seed, asked.epochs)
                folder = Path(asked.out) / spec.folder_name
                done = folder / "suspects.json"  # so that a benchmark that was stopped goes on
                if not done.is_file():
                    done.parent.mkdir(parents=True, exist_ok=True)
                    done.write_text(json.dumps(one_run(spec, folder, asked.data_dir, asked.folds)))
                seeds[str(seed)] = json.loads(done.read_text())
            names = list(seeds[str(asked.first_seed)])
            means = {
                name: {key: Mean.of([s[name][key] for s in seeds.values()]).to_dict() for key in ("auc", "precision")}
                for name in names
            }
            rows.append({"corruption": title, "method": method, "seeds": seeds, "means": means})
            print(f"\n{title}, {method}, {asked.seeds} seeds: AUC, precision at the true count")
            for name in names:
                auc, precision = (means[name][key] for key in ("auc", "precision"))
                print(f"  {name:52s}{auc['mean']:9.4f}{precision['mean']:9.4f}")
    about = provenance()
    if importlib.util.find_spec("cleanlab") is not None:
        about["versions"]["cleanlab"] = importlib.metadata.version("cleanlab")
    words = f"--source {asked.source} --first-seed {asked.first_seed} --seeds {asked.seeds}"
    words += f" --epochs {asked.epochs} --folds {asked.folds} --name {asked.name}"
    about["command"] = f"python benchmarks/suspects.py {words}"
    record = {
        "kind": "suspects",
        "name": asked.name,
        "setting": f"{asked.source}, MLP 256-256, Adam 1e-3, batch 128, {asked.epochs} epochs, clean exemplars",
        "corruptions": CORRUPTIONS,
        "rows": rows,
        **about,
    }
    print(f"\nRecord: {keep(record, asked.records)}")


if __name__ == "__main__":
    main()
