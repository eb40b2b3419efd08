"""What keeping each sample's history costs, as a share of a plain training epoch.

python benchmarks/dynamics_cost.py --records records
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import nn

from fairweight import MLP, Batch, Dynamics, FitOptions, ResNet18, TrainSampler, Uniform, fit
from fairweight.experiments.provenance import provenance
from fairweight.experiments.records import keep

# name -> model, input shape, samples, batch size, steps per measured part of an epoch
NETWORKS: dict[str, tuple[Any, tuple[int, ...], int, int, int]] = {
    "MLP 256-256, 28x28, batch 128": (lambda: MLP(784, 10, (256, 256)), (1, 28, 28), 60_000, 128, 469),
    "MLP 64-64, 100 inputs, batch 128": (lambda: MLP(100, 2, (64, 64)), (100,), 30_000, 128, 235),
    "ResNet-18, 32x32, batch 16": (lambda: ResNet18(10), (3, 32, 32), 50_000, 16, 3),
}


def cost(
    make: Any, shape: tuple[int, ...], count: int, size: int, steps: int, repeats: int, device: str
) -> dict[str, float]:
    """Seconds of a step and of its history, medians over repeats; the end of an epoch is shared among its steps."""
    model: nn.Module = make().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pool = min(count, 4_096)  # inputs are drawn from so many, to spare memory
    inputs = torch.rand(pool, *shape, device=device)
    labels = torch.randint(0, 2, (pool,), device=device)
    method, dynamics = Uniform(model, count), Dynamics(count, device)
    sampler = TrainSampler(count, size, device=device)
    cuda = device.startswith("cuda")
    wait, clock = (torch.cuda.synchronize, time.perf_counter) if cuda else (lambda: None, time.thread_time)
    trained, noted = [], []
    for repeat in range(repeats + 1):
        a = b = 0.0
        for k in range(steps):
            rows = sampler.rows(repeat * len(sampler) + k)
            batch = Batch(inputs[rows % pool], labels[rows % pool], rows=rows)
            wait()
            started = clock()
            record = method.step(batch, None, optimizer)
            wait()
            between = clock()
            dynamics.on_step(rows, record)
            wait()
            b += clock() - between
            a += between - started
        between = clock()
        dynamics.on_epoch(None, repeats)
        wait()
        b += (clock() - between) * steps / len(sampler)
        if repeat:  # the first warms up
            trained.append(a / steps)
            noted.append(b / steps)
    train = Batch(inputs[torch.arange(steps * size) % pool], labels[torch.arange(steps * size) % pool])
    plain = []
    for _ in range(repeats):
        wait()
        started = clock()
        method = Uniform(model, len(train))
        fit(model, optimizer, method, train, epochs=1, options=FitOptions(batch_size=size, capture=False))
        wait()
        plain.append((clock() - started) / steps)
    step, history, epoch = (statistics.median(times) for times in (trained, noted, plain))
    return {
        "step_ms": 1e3 * step,
        "epoch_ms_per_step": 1e3 * epoch,
        "history_ms": 1e3 * history,
        "share_of_step": history / step,
        "share_of_epoch": history / epoch,
        "n": repeats,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    for name, (make, *rest) in NETWORKS.items():
        rows[name] = cost(make, *rest, asked.repeats, asked.device)
        found = rows[name]
        times = f"step {found['step_ms']:9.3f} ms, history {found['history_ms']:7.4f} ms"
        print(f"{name:36s} {times}: {found['share_of_step']:.2%}, {found['share_of_epoch']:.2%} of an epoch")
    about = provenance(asked.device)
    about["command"] = f"python benchmarks/dynamics_cost.py --device {asked.device} --repeats {asked.repeats}"
    print(f"Record: {keep({'kind': 'dynamics_cost', 'name': 'dynamics_cost', 'rows': rows, **about}, asked.records)}")


if __name__ == "__main__":
    main()
