"""The experiment that chose FORML's defaults: score step, objective, exemplars per class, averaging of v.

MNIST or digits with 20 % of the training labels set to 2; configurations are compared on a clean validation set,
the test set is reported and never chosen on. One JSON line per run.

    python benchmarks/score_step.py --data FOLDER --grid FILE --seeds 3 --processes 16 --out runs.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing as mp
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairweight.fast.cuda_graph import CapturedStep
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.methods.l2rw import L2RW
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, PlainStep
from fairweight.methods.uniform import Uniform
from fairweight.models.mlp import MLP
from fairweight.objectives import Objective
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.mean_discrepancy import MeanLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.objectives.worst_group import WorstGroupLoss
from fairweight.sampling import ExemplarSampler, TrainSampler, generator
from fairweight.types import Batch, Cells

OBJECTIVES: dict[str, Objective] = {
    "max": MaxLossDiscrepancy(),
    "meand": MeanLossDiscrepancy(),
    "var": LossVariance(),
    "mean": MeanLoss(),
    "worst": WorstGroupLoss(),
    "mean+max": MeanLoss() + MaxLossDiscrepancy(),
    "mean+.3max": MeanLoss() + 0.3 * MaxLossDiscrepancy(),
    "mean+var": MeanLoss() + LossVariance(),
    "mean+.3var": MeanLoss() + 0.3 * LossVariance(),
    "mean+std": MeanLoss() + LossVariance(root=True),
    "mean+3var": MeanLoss() + 3.0 * LossVariance(),
}


def idx(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    start = 4 + 4 * raw[3]
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def pixels(folder: str, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Train and test images and labels."""
    if name == "digits":
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        a, b, c, d = train_test_split(x / 16.0, y, test_size=0.25, random_state=0, stratify=y)
        return (torch.tensor(a).float(), torch.tensor(c), torch.tensor(b).float(), torch.tensor(d))
    root = Path(folder)
    parts = [
        idx(root / f"{n}.gz")
        for n in (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
    ]
    return (
        torch.tensor(parts[0]).flatten(1).float() / 255,
        torch.tensor(parts[1]).long(),
        torch.tensor(parts[2]).flatten(1).float() / 255,
        torch.tensor(parts[3]).long(),
    )


def auc(score: torch.Tensor, positive: torch.Tensor) -> float:
    order = torch.argsort(score)
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype, device=score.device)
    n1 = int(positive.sum())
    n0 = len(score) - n1
    return float((rank[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def measures(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float()
    tpr = torch.stack([right[y == c].mean() for c in range(10)])
    return {
        "accuracy": float(right.mean()),
        "tprd": float(tpr.max() - tpr.min()),
        "max_fnr": float(1 - tpr.min()),
        "std": float(tpr.std()),
    }


def make(method: dict[str, Any], model: torch.nn.Module, n: int) -> Reweighter:
    kind = method["method"]
    if kind == "uniform":
        return Uniform(model, n)
    objective = OBJECTIVES[method.get("objective", "max")]
    if kind == "l2rw":
        return L2RW(model, n, objective)
    if "scale" in method:
        step: Any = PlainStep(method["scale"])
    else:
        step = AdaptiveStep(**{k: method[k] for k in ("rate", "fall", "rise", "slowing", "memory") if k in method})
    return FORML(
        model,
        n,
        objective,
        LookAhead(reverse=method.get("reverse", False)),
        step,
        tie=method.get("tie"),
        agreement_every=method.get("agreement_every", 200),
    )


def run(job: dict[str, Any]) -> dict[str, Any]:
    started = time.time()
    torch.set_num_threads(1)
    device = job["device"]
    seed, data = job["seed"], job.get("set", "mnist")
    x, y, tx, ty = pixels(job["data"], data)
    order = torch.randperm(len(x), generator=generator("split", seed))
    n_ex, n_val = (5000, 5000) if data == "mnist" else (200, 200)
    ex, val, train = order[:n_ex], order[n_ex : n_ex + n_val], order[n_ex + n_val :]
    clean = y[train]
    noisy = clean.clone()
    if not job.get("clean"):
        chosen = torch.randperm(len(train), generator=generator("corrupt", seed))[: len(train) // 5]
        noisy[chosen] = 2
    wrong = (noisy != clean).to(device)
    torch.manual_seed(seed)
    hidden = job.get("hidden", (512, 512) if data == "mnist" else (64, 64))
    model = MLP(x.shape[1], 10, hidden).to(device)
    lr, kind = job.get("lr", 0.1), job.get("optimizer", "sgd")
    optimizer: torch.optim.Optimizer
    if kind == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, capturable=device == "cuda")
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=job.get("momentum", 0.0))
    n = len(train)
    reweighter = make(job, model, n)
    whole = Batch(x[train].to(device), noisy.to(device), rows=torch.arange(n, device=device))
    held = Batch(x[ex].to(device), y[ex].to(device))
    per_cell = job.get("per_class", 3)
    draws = ExemplarSampler(Cells.of(y[ex]), per_cell, seed, device=device)
    sampler = TrainSampler(n, job.get("batch", 128), seed, drop_last=True, device=device)
    take = CapturedStep(reweighter, optimizer) if device == "cuda" else None
    epochs, step = job.get("epochs", 10), 0
    agreements, path = [], []
    total = epochs * len(sampler)
    for epoch in range(epochs):
        if job.get("cosine"):
            for group in optimizer.param_groups:
                group["lr"] = lr * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        for _ in range(len(sampler)):
            batch, exemplar = whole.take(sampler.rows(step)), draws.batch(held, step)
            record = take(batch, exemplar) if take else reweighter.step(batch, exemplar, optimizer)
            if record.agreement is not None:
                agreements.append(float(record.agreement))
            step += 1
        path.append(measures(model, x[val].to(device), y[val].to(device)))
    out = {
        "job": job,
        "seed": seed,
        "steps": total,
        "validation": path[-1],
        "path": path,
        "test": measures(model, tx.to(device), ty.to(device)),
        "seconds": time.time() - started,
        "captured": take is not None and take.refusal is None,
        "refusal": take.refusal if take else None,
    }
    if reweighter.scores is not None:
        s = reweighter.scores
        p = torch.softmax(s, 0)
        out |= {
            "score_std": float(s.std()),
            "score_max": float(s.abs().max()),
            "ess": float(1 / (n * p.square().sum())),
            "agreement": float(np.mean(agreements)) if agreements else None,
        }
        if not job.get("clean"):
            out["auc"] = auc(-s.float(), wrong)
    return out


def safe(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return run(job)
    except Exception as error:
        return {"job": job, "seed": job["seed"], "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=".")
    parser.add_argument("--grid", required=True, help="JSON file: a list of configurations")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after this many seconds")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    grid = json.loads(Path(given.grid).read_text())
    jobs = [
        {**g, "seed": s, "data": given.data, "device": given.device}
        for s in range(given.first_seed, given.first_seed + given.seeds)
        for g in grid
    ]
    started, done = time.time(), 0
    with mp.get_context("spawn").Pool(given.processes) as pool, Path(given.out).open("w") as out:
        for result in pool.imap_unordered(safe, jobs):
            out.write(json.dumps(result) + "\n")
            out.flush()
            done += 1
            if done % 20 == 0:
                print(f"{done}/{len(jobs)} after {time.time() - started:.0f} s", flush=True)
            if time.time() - started > given.seconds:
                pool.terminate()
                break


if __name__ == "__main__":
    main()
