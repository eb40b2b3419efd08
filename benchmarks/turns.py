"""The plain and the exact step in turns, so that a clock that drifts meets both: the multiple that is claimed.

    python benchmarks/turns.py --batch 128 --out turns128.json      a GPU: both compiled and captured, bfloat16
    python benchmarks/turns.py --batch 128 --search --inductor combo_kernels    other kernels, for both sides alike
    python benchmarks/turns.py --device cpu --width 4 --batch 16 --rounds 2 --each 2

Prints and writes medians, quartiles, peak memory and the multiple; records/*_bench_* keeps them as calls. --profile
adds what each kernel takes. Where BENCH_TURNS is set (per_layer.py), several of these compile side by side.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from per_layer import in_turn
from torch import Tensor

from fairweight.apps.bench import Ready, Way, warmed, ways
from fairweight.models.resnet import ResNet18
from fairweight.runs.build import laid_out
from fairweight.runs.own_model import example_batches
from fairweight.runs.provenance import provenance


def chosen(device: str) -> tuple[Way, Way]:
    """Plain, and exact FORML, under the best regime of the device."""
    regime = "compiled" if device == "cuda" else "eager"
    found = {way.name: way for way in ways(device) if way.regime == regime}
    return found["plain"], found["forward, traced"]


def kernels(way: Ready, steps: int = 5) -> list[tuple[str, float, float]]:
    """What each kernel of a step takes, the longest first: its name, microseconds and calls of a step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            way.step()
        torch.cuda.synchronize()
    rows = [(e.key[:120], e.self_device_time_total / steps, e.count / steps) for e in seen.key_averages()]
    return sorted(rows, key=lambda row: -row[1])


def measured(
    device: str, batch: int, exemplars: int, width: int, rounds: int, each: int, *, profiled: bool = False
) -> dict[str, Any]:
    torch.manual_seed(0)
    net = laid_out(ResNet18(10, width=width), device)

    def made(count: int) -> Tensor:
        return torch.randn(count, 3, 32, 32, device=device).contiguous(memory_format=torch.channels_last)

    train, held = example_batches(net, made(batch), made(exemplars), batch, exemplars)
    pair = chosen(device)
    ready = [warmed(way, net, train, held, bf16=device == "cuda") for way in pair]
    times: list[list[float]] = [[], []]
    with in_turn("turns"):
        for way in ready:
            way.times(10 if device == "cuda" else 1)
        for _ in range(rounds):
            for place, way in enumerate(ready):
                times[place] += way.times(each)
        profiles = {way.name: kernels(warm) for way, warm in zip(pair, ready, strict=True)} if profiled else {}
    results = [
        {
            "name": way.name, "regime": way.regime, "exact": way.exact, "batch": batch,
            "median_ms": statistics.median(taken), "quartiles_ms": statistics.quantiles(taken, n=4)[::2],
            "n": len(taken), "peak_mib": warm.peak_mib, "warm_up_s": warm.warm_up_s, "refusal": warm.refusal,
        }
        for way, warm, taken in zip(pair, ready, times, strict=True)
    ]  # fmt: skip
    return {
        "results": results,
        "times_plain": results[1]["median_ms"] / results[0]["median_ms"],
        **provenance(device),
        "kernels": profiles,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--exemplars", type=int, default=30)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--each", type=int, default=25)
    parser.add_argument("--search", action="store_true", help="let cuDNN try its algorithms, for both sides")
    parser.add_argument("--inductor", nargs="*", default=[], help="options of torch's compiler to switch on")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = asked.search
    for name in asked.inductor:
        setattr(torch._inductor.config, name, True)
    sizes = (asked.device, asked.batch, asked.exemplars, asked.width, asked.rounds, asked.each)
    found = {**measured(*sizes, profiled=asked.profile), "search": asked.search, "inductor": asked.inductor}
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    for row in found["results"]:
        low, high = row["quartiles_ms"]
        print(f"{row['name']:16s} {row['regime']:9s} {row['median_ms']:9.2f} ms [{low:.2f}, {high:.2f}], n {row['n']}")
    print(f"{found['times_plain']:.2f} times plain")


if __name__ == "__main__":
    main()
