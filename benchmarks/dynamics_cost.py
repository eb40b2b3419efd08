"""What keeping each sample's history costs, as a share of a plain training epoch.

Epochs with and without take turns and are measured in processor time, not by the wall clock, so that other work on the
machine falls on both alike; medians and quartiles over many turns.

python benchmarks/dynamics_cost.py --records records
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fairweight import MLP, Batch, Dynamics, FitOptions, ResNet18, StepRecord, Uniform, fit
from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance

Clock = Callable[[], float]

# name -> model, input shape, samples, batch size, repeats for each one asked for
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int, float]] = {
    "MLP 256-256, 28x28, batch 128": (lambda: MLP(784, 10, (256, 256)), (1, 28, 28), 60_000, 128, 0.5),
    "MLP 64-64, 100 inputs, batch 128": (lambda: MLP(100, 2, (64, 64)), (100,), 30_000, 128, 1),
    "ResNet-18, 32x32, batch 16": (lambda: ResNet18(10), (3, 32, 32), 64, 16, 0.1),
}


class Timed(Dynamics):
    """The same history, with the processor time that it takes."""

    def __init__(self, num_samples: int, device: str, clock: Clock, wait: Callable[[], object]) -> None:
        super().__init__(num_samples, device)
        self.spent, self.calls = 0.0, 0
        self._clock, self._wait = clock, wait

    def on_step(self, rows: Tensor, record: StepRecord) -> None:
        self._wait()
        started = self._clock()
        super().on_step(rows, record)
        self._wait()
        self._add(started)

    def on_epoch(self, scores: Tensor | None, epochs: int, weights: Tensor | None = None) -> None:
        self._wait()
        started = self._clock()
        super().on_epoch(scores, epochs, weights)
        self._wait()
        self._add(started)

    def _add(self, started: float) -> None:
        self.spent += self._clock() - started
        self.calls += 1


def clock_itself(clock: Clock) -> float:
    """Seconds that reading the clock twice adds to what lies between."""
    return statistics.median(-(clock() - clock()) for _ in range(10_001))


def cost(
    make: Callable[[], nn.Module], shape: tuple[int, ...], count: int, size: int, repeats: int, device: str
) -> dict[str, Any]:
    """Seconds of an epoch, plain and with its history, by turns, so that a busy machine slows both alike.

    share_of_epoch is the time inside the history over that of the plain epoch beside it. share_by_difference, of whole
    epochs with and without, is the same seen from outside, with a history that holds no clock: more noise, but nothing
    can hide from it.
    """
    cuda = device.startswith("cuda")
    wait: Callable[[], object] = torch.cuda.synchronize if cuda else lambda: None
    clock = time.perf_counter if cuda else time.thread_time
    pool = torch.rand(min(count, 4_096), *shape, device=device)  # inputs are drawn from so many, to spare memory
    train = Batch(pool[torch.arange(count) % len(pool)], torch.randint(0, 2, (count,), device=device))
    own = clock_itself(clock)

    def epoch(history: Dynamics | None) -> float:
        torch.manual_seed(0)
        model = make().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        options = FitOptions(batch_size=size, capture=False)
        wait()
        started = clock()
        fit(model, optimizer, Uniform(model, count), train, epochs=1, dynamics=history, options=options)
        wait()
        return clock() - started

    history, unwatched = Timed(count, device, clock, wait), Dynamics(count, device)
    ways: list[Dynamics | None] = [None, history, unwatched]
    for way in ways:  # warms up
        epoch(way)
    plain, inside, outside = [], [], []
    for _ in range(repeats):
        history.spent, history.calls = 0.0, 0
        ways.append(ways.pop(0))  # none always goes first
        took = {way: epoch(way) for way in ways}
        plain.append(took[None])
        inside.append((history.spent - own * history.calls) / took[None])
        outside.append(took[unwatched] / took[None] - 1)
    steps = -(-count // size)
    return {
        "epoch_ms_per_step": 1e3 * statistics.median(plain) / steps,
        "history_ms": 1e3 * statistics.median(a * b for a, b in zip(inside, plain, strict=True)) / steps,
        "share_of_epoch": statistics.median(inside),
        "share_of_epoch_quartiles": statistics.quantiles(inside, n=4)[::2],
        "share_by_difference": statistics.median(outside),
        "share_by_difference_quartiles": statistics.quantiles(outside, n=4)[::2],
        "n": repeats,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    for name, (make, shape, count, size, times) in NETWORKS.items():
        rows[name] = cost(make, shape, count, size, max(3, round(times * asked.repeats)), asked.device)
        found = rows[name]
        parts = f"step {found['epoch_ms_per_step']:9.3f} ms, history {found['history_ms']:7.4f} ms"
        shares = f"{found['share_of_epoch']:.2%} of an epoch, {found['share_by_difference']:.2%} by difference"
        print(f"{name:36s} {parts}: {shares}, {found['n']} times", flush=True)
    about = provenance(asked.device)
    about["command"] = f"python benchmarks/dynamics_cost.py --device {asked.device} --repeats {asked.repeats}"
    print(f"Record: {keep({'kind': 'dynamics_cost', 'name': 'dynamics_cost', 'rows': rows, **about}, asked.records)}")


if __name__ == "__main__":
    main()
