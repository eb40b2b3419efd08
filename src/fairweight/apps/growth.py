"""How a step's time grows with the number of scores and with the batch."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from fairweight.methods.forml import FORML
from fairweight.models.mlp import MLP
from fairweight.types import Batch

SAMPLES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
BATCHES = (32, 64, 128, 256, 512, 1024)


def growth(device: str, *, repeats: int = 40, samples: tuple[int, ...] = SAMPLES) -> dict[str, list[dict[str, Any]]]:
    """Median step time by number of scores at batch 128, and by batch at 10,000 scores."""
    return {
        "samples": [_time(device, n, 128, repeats) for n in samples],
        "batch": [_time(device, 10_000, b, repeats) for b in BATCHES],
    }


def _time(device: str, samples: int, size: int, repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = MLP(64, 10, (256, 256)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    forml = FORML(model, samples, gradient="forward", agreement_every=0)
    labels = torch.arange(size, device=device) % 10
    inputs = torch.randn(size, 64, device=device)
    exemplar = Batch(torch.randn(100, 64, device=device), torch.arange(100, device=device) % 10)
    times = []
    for k in range(repeats + 3):
        rows = torch.randint(0, samples, (size,), device=device)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        started = time.perf_counter()
        forml.step(Batch(inputs, labels, rows=rows), exemplar, optimizer, check=False)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        if k >= 3:
            times.append(1000 * (time.perf_counter() - started))
    low, middle, high = statistics.quantiles(times, n=4)
    spread = {"median_ms": middle, "quartiles_ms": [low, high], "n": repeats}
    return {"samples": samples, "batch": size, **spread, "score_bytes": 4 * samples}


def draw(found: dict[str, list[dict[str, Any]]], path: Path) -> Path:
    """Two panels: time against scores, time against batch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axes, key, name in ((left, "samples", "scores"), (right, "batch", "training samples in a batch")):
        axes.plot([f[key] for f in found[key]], [f["median_ms"] for f in found[key]], "o-", color="#2a6f97")
        axes.set(xlabel=name, ylabel="median time of a step, ms")
        axes.set_ylim(0, 1.1 * max(f["median_ms"] for f in found[key]))
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xscale("log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
