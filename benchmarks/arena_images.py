"""Wrong labels among pictures, small enough for a CPU: digits, CIFAR-10, ten classes of CIFAR-100, FairFace by race.

One plain training of a small network (digits: by FORML, too), whose labels `fairweight suspects` ranks beside clean
exemplars; cleanlab has the same network's cross-validated probabilities, which takes three trainings more, and so does
our posterior beside it. Exemplars are trained on in the folds that they are not in.

    python benchmarks/arena_images.py --data-dir FOLDER --out runs/arena_images
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from arena import Array, cleanlab_of, measured
from arena_tasks import carry_out, parser_of
from torch import nn

from fairweight.apps.suspects import ranked_labels
from fairweight.data import Dataset
from fairweight.metrics.label_noise import label_noise
from fairweight.runs.build import network_for
from fairweight.runs.folder import METRICS
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for

FOLDS, PICTURES = 3, 2_500
EPOCHS = {"digits": 12, "cifar": 8, "cifar10": 8, "fairface": 8}
EXEMPLARS = {"digits": 15, "cifar": 30, "cifar10": 30, "fairface": 20}  # of each cell
PAIRS = {"uniform 20 %": "uniform-flips:fraction=0.2", "pairs of classes 20 %": "pair-flips:fraction=0.2"}
NOISES = {
    "digits": {"uniform 20 %": "uniform-flips:fraction=0.2", "to one class 20 %": "one-class:label=2,fraction=0.2"},
    "cifar": PAIRS,  # every tenth class of CIFAR-100
    "cifar10": PAIRS,
    "fairface": {"uniform 20 %": "uniform-flips:fraction=0.2", "one group 30 %": "group-flips:Black=0.3"},
}


def small(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, classes))


def ten() -> nn.Module:
    return small(10)


def two() -> nn.Module:
    return small(2)


def ten_classes(data_dir: str, out: Path) -> Path:
    """Every tenth class of CIFAR-100, by name."""
    folder = out / "ten_classes"
    for part in ("train", "test"):
        files = sorted((Path(data_dir) / "cifar100").glob(f"{part}-*.parquet"))
        frame = pd.concat([pq.read_table(file).to_pandas() for file in files], ignore_index=True)
        frame = frame[frame["fine_label"] % 10 == 0]
        labels = "class " + (frame["fine_label"] // 10).astype(str)
        folder.mkdir(parents=True, exist_ok=True)
        made = frame[["img"]].assign(label=labels)
        if not (folder / f"{part}.parquet").is_file():
            made.to_parquet(folder / f"{part}.parquet", index=False)
    return folder


def spec_for(task: dict[str, Any], out: Path, data_dir: str) -> Spec:
    name = task["name"]
    data: dict[str, Any] = {
        "corruptions": [NOISES[name][task["noise"]]],
        "split": {"validation": 0.0} | ({"test": 0.25} if name == "digits" else {}),
        "exemplar": {"source": "train", "size": EXEMPLARS[name]},
    }
    network: dict[str, Any] = {"name": "mlp", "hidden": [64]}
    source = name
    if name != "digits":
        data |= {"limit": PICTURES, "image": {"size": 32, "cache_dir": str(out / "cache")}}
        network = {"name": "arena_images:two" if name == "fairface" else "arena_images:ten"}
        source = str(ten_classes(data_dir, out)) if name == "cifar" else name
    return Spec(
        source, label="label" if name == "cifar" else None, data=data, network=network, method=task["method"],
        epochs=EPOCHS[name], batch_size=64, seed=task["seed"],
    )  # fmt: skip


def cross_validated(dataset: Dataset, spec: Spec) -> tuple[Array, Array]:
    """Chances by the same network, of train and of exemplars, each from a training without the row."""
    parts = (dataset.train, dataset.exemplar)
    inputs, labels = (torch.cat([getattr(part, name) for part in parts]) for name in ("inputs", "labels"))
    generator = torch.Generator().manual_seed(spec.seed)
    fold = torch.randperm(len(labels), generator=generator) % FOLDS
    chances = torch.zeros(len(labels), len(dataset.label_names), dtype=torch.float64)
    for part in range(FOLDS):
        torch.manual_seed(spec.seed)
        model, rest = network_for(dataset.preprocessing, spec.network), torch.nonzero(fold != part).flatten()
        optimizer = torch.optim.Adam(model.parameters(), lr=spec.lr)
        for _ in range(spec.epochs):
            for batch in rest[torch.randperm(len(rest), generator=generator)].split(spec.batch_size):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
                optimizer.step()
        with torch.no_grad():
            chances[fold == part] = model.eval()(inputs[fold == part]).double().softmax(dim=1)
    n = len(dataset.train)
    return chances[:n].numpy(), chances[n:].numpy()


def job(task: dict[str, Any], out: str, data_dir: str) -> dict[str, Any]:
    spec = spec_for(task, Path(out), data_dir)
    dataset = dataset_for(spec, data_dir)
    path = Path(out) / "_".join(str(value).replace(" ", "-").replace("%", "") for value in task.values())
    folder = run(spec, path, data_dir=data_dir).folder
    weights, metrics = folder.read_weights(), folder.read(METRICS)
    wrong = (weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy()
    started = time.process_time()
    ranked = ranked_labels(folder, weights, trust=True)
    whole: dict[str, Any] = next(iter(ranked.counts()), {})  # nothing is said where the model is not good enough
    seconds = time.process_time() - started
    entry = measured(wrong, -ranked.table["rank"].to_numpy().astype(float), whole.get("wrong"), seconds)
    entry |= {key: whole[key] for key in ("low", "high") if whole} | {"accuracy": metrics["accuracy"]}
    found = {"fairweight": entry}
    alone = ranked_labels(folder, weights, trust=False)
    found["fairweight, nothing trusted"] = measured(wrong, -alone.table["rank"].to_numpy().astype(float))
    if task["method"] != "uniform":
        return found
    started = time.process_time()
    chances, beside = cross_validated(dataset, spec)
    y, g = dataset.train.labels.numpy(), dataset.train.groups
    theirs = cleanlab_of(y, chances, wrong, started)
    trusted = dataset.exemplar
    noise = label_noise(
        np.log(chances + 1e-9), y, np.log(beside + 1e-9), trusted.labels, groups=g, trusted_groups=trusted.groups
    )
    count = noise.count()
    ours = measured(wrong, noise.wrong, count.value, time.process_time() - started)
    ours |= {"low": count.low, "high": count.high}
    return found | {"cleanlab, cross-validated": theirs, "fairweight's posterior, cross-validated": ours}


def main() -> None:
    parser = parser_of(__doc__, "runs/arena_images")
    parser.add_argument("--sets", default=",".join(NOISES))
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    tasks = [
        {"kind": "image", "name": name, "noise": noise, "method": method, "seed": seed}
        for seed in seeds
        for name in asked.sets.split(",")
        for noise in NOISES[name]
        for method in (("uniform", "forml") if name == "digits" else ("uniform",))
    ]
    carry_out(job, tasks, asked)


if __name__ == "__main__":
    main()
