"""Wrong labels among images: CIFAR-10 and FairFace with planted noise by class and group; a study on one GPU.

Each run's labels are ranked by our rule beside trusted exemplars, by its parts, and by cleanlab's score of the same
model's probabilities. Exemplars are clean; noise is in train and validation.

    python benchmarks/arena_images.py --data-dir FOLDER --device cuda --jobs 4 --minutes 7 --results FILE
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena import measured

from fairweight.apps._wrong_labels import ranked_labels
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.provenance import provenance
from fairweight.runs.run import run
from fairweight.runs.spec import Spec

NOISES = {
    "cifar10": {
        "uniform 20 %": "uniform-flips:fraction=0.2",
        "pairs of classes 20 %": "pair-flips:fraction=0.2",
        "to one class 20 %": "one-class:label=cat,fraction=0.2",
        "clean": None,
    },
    "fairface": {
        "uniform 20 %": "uniform-flips:fraction=0.2",
        "one group 30 %": "group-flips:Black=0.3",
        "clean": None,
    },
}


def spec_for(task: dict[str, Any], epochs: int, width: int) -> Spec:
    noise = NOISES[task["name"]][task["noise"]]
    data: dict[str, Any] = {
        "corruptions": [] if noise is None else [noise],
        "split": {"validation": 0.0},
        "exemplar": {"source": "train", "size": 60},
    }
    network = {"name": "resnet18", "width": width}
    return Spec(
        task["name"], data=data, network=network, method=task["method"], epochs=epochs, batch_size=128,
        seed=task["seed"],
    )  # fmt: skip


def ranked(folder: RunFolder) -> dict[str, Any]:
    """AUC and precision of our rule and of its parts, and of cleanlab's score of the same model."""
    weights, metrics = folder.read_weights(), folder.read(METRICS)
    wrong = np.zeros(len(weights), dtype=bool)
    if "true_label" in weights:
        wrong = (weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy()
    started = time.process_time()
    found = ranked_labels(folder, weights, trust=True)
    seconds = time.process_time() - started
    whole = found.counts()[0]
    posterior, margin = found.table["posterior"], -weights["mean_probability_margin"]
    logits, labels, _ = folder.read_logits("train")
    own = logits.double().softmax(dim=1)[torch.arange(len(labels)), labels].numpy()
    entry = measured(wrong, -found.table["rank"].to_numpy().astype(float), whole["wrong"], seconds)
    entry |= {"low": whole["low"], "high": whole["high"], "accuracy": metrics["accuracy"], "tprd": metrics["tprd"]}
    kept = {"fairweight": entry, "posterior": measured(wrong, posterior.to_numpy())}
    kept["margin over training"] = measured(wrong, margin.to_numpy())
    kept["mean rank of posterior and margin"] = measured(
        wrong, (pd.Series(posterior.to_numpy()).rank() + pd.Series(margin.to_numpy()).rank()).to_numpy()
    )
    kept["cleanlab self-confidence, same model"] = measured(wrong, -own)
    if weights["score"].notna().any():
        kept["low score"] = measured(wrong, -weights["score"].to_numpy(dtype=float))
    trusted, ty, _ = folder.read_logits("exemplar")
    kept["fairweight"]["right_on_trusted"] = float((trusted.argmax(dim=1) == ty).double().mean())
    return kept


def job(task: dict[str, Any], asked: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("fairweight").addHandler(logging.NullHandler())
    folder = Path(asked.out) / "_".join(str(value).replace(" ", "-") for value in task.values())
    done = run(spec_for(task, asked.epochs, asked.width), folder, data_dir=asked.data_dir, device=asked.device)
    return task, ranked(done.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="shared/data")
    parser.add_argument("--sets", default="cifar10,fairface")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=600, help="no run is begun after so many")
    parser.add_argument("--out", default="runs/arena_images")
    parser.add_argument("--results", type=Path, default=Path("runs/arena_images.json"))
    asked = parser.parse_args()
    wanted = [
        {"name": name, "noise": noise, "method": method, "seed": seed}
        for seed in range(asked.seeds)
        for name in asked.sets.split(",")
        for noise in NOISES[name]
        for method in ("forml", "uniform")
    ]
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    kept: list[dict[str, Any]] = []
    queue, ends = iter(wanted), time.monotonic() + 60 * asked.minutes
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(job, task, asked) for task in islice(queue, asked.jobs)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            task, found = done.result()
            kept.append({"task": task, "found": found})
            print(f"{len(kept)} of {len(wanted)}: {task}", flush=True)
            asked.results.write_text(json.dumps({"about": provenance(), "epochs": asked.epochs, "entries": kept}))
            following = next(queue, None) if time.monotonic() < ends else None
            if following is not None:
                running.add(pool.submit(job, following, asked))


if __name__ == "__main__":
    main()
