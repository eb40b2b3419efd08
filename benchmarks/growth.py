"""Time of a step against the number of scores and the batch: it should not grow with the scores.

    python benchmarks/growth.py --device cpu --out runs/growth

Writes growth.json, which records/*_growth_* keep, and growth.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from fairweight.apps.bench import timed
from fairweight.methods.forml import FORML
from fairweight.models.mlp import MLP
from fairweight.runs.provenance import provenance
from fairweight.types import Batch

SAMPLES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
BATCHES = (32, 64, 128, 256, 512, 1024)


def growth(device: str, *, repeats: int = 40, samples: tuple[int, ...] = SAMPLES) -> dict[str, list[dict[str, Any]]]:
    """Median step time by number of scores at batch 128, and by batch at 10,000 scores."""
    return {
        "samples": [one(device, n, 128, repeats) for n in samples],
        "batch": [one(device, 10_000, b, repeats) for b in BATCHES],
    }


def one(device: str, samples: int, size: int, repeats: int) -> dict[str, Any]:
    """Time one size."""
    torch.manual_seed(0)
    model = MLP(64, 10, (256, 256)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    forml = FORML(model, samples, gradient="forward", agreement_every=0)
    inputs, labels = torch.randn(size, 64, device=device), torch.arange(size, device=device) % 10
    exemplar = Batch(torch.randn(100, 64, device=device), torch.arange(100, device=device) % 10)
    rows = iter([torch.randint(0, samples, (size,), device=device) for _ in range(repeats + 3)])

    def step() -> None:
        forml.step(Batch(inputs, labels, rows=next(rows)), exemplar, optimizer, check=False)

    times = [timed(step, device.startswith("cuda")) for _ in range(repeats + 3)][3:]
    low, middle, high = statistics.quantiles(times, n=4)
    spread = {"median_ms": middle, "quartiles_ms": [low, high], "n": repeats}
    return {"samples": samples, "batch": size, **spread, "score_bytes": 4 * samples}


def draw(found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw two panels: time against scores, time against batch."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, key, name in ((left, "samples", "scores"), (right, "batch", "training samples in a batch")):
        axes.plot([f[key] for f in found[key]], [f["median_ms"] for f in found[key]], "o-", color="#2a6f97")
        axes.set(xlabel=name, ylabel="median time of a step, ms")
        axes.set_ylim(0, 1.1 * max(f["median_ms"] for f in found[key]))
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xscale("log")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Read the command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--device", default="cpu")
    words.add_argument("--out", type=Path, default=Path("runs/growth"))
    asked = words.parse_args()
    found = growth(asked.device)
    asked.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"kind": "growth", **found, **provenance(asked.device)}, indent=2)
    (asked.out / "growth.json").write_text(text + "\n", encoding="utf-8")
    draw(found, asked.out / "growth.png")
    for row in (*found["samples"], *found["batch"]):
        print(f"{row['samples']:>12,} scores  batch {row['batch']:4d}  {row['median_ms']:8.2f} ms")


if __name__ == "__main__":
    main()
