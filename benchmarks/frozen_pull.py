"""Cosine of the pull with batch statistics held constant with the exact one, over seeds; prints one JSON object.

PYTHONPATH=src python benchmarks/frozen_pull.py
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics

import torch
import torch.nn.functional as F

import fairweight as fw


def drawn(n: int, size: int) -> fw.Batch:
    rows = torch.arange(n)
    return fw.Batch(torch.randn(n, 3, size, size), rows % 10, rows % 2, rows)


def cosine(seed: int, width: int, size: int, batch: int) -> float:
    """Of the pulls less their mean, which is what moves scores."""
    torch.manual_seed(seed)
    model, train, held = fw.ResNet18(10, width=width), drawn(batch, size), drawn(30, size)
    pulls = []
    for gradient in ("forward", "per-layer-frozen"):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        made = fw.FORML(twin, batch, gradient=gradient, agreement_every=0).backward(train, held, optimizer)
        pulls.append(made.pull - made.pull.mean())
    return float(F.cosine_similarity(*pulls, dim=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    asked = parser.parse_args()
    found = [cosine(seed, asked.width, asked.size, asked.batch) for seed in range(asked.seeds)]
    spread = statistics.stdev(found) if len(found) > 1 else None
    print(json.dumps({**vars(asked), "cosines": found, "mean": statistics.mean(found), "sd": spread}))


if __name__ == "__main__":
    main()
