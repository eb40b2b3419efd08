"""Time and memory of one step: plain, FORML in each way, double backward; medians, both sides in one run.

python benchmarks/step_time.py --device cuda --batch 128 512 --out record.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fairweight.engine.captured import CapturedStep
from fairweight.experiments.provenance import provenance
from fairweight.models.resnet import ResNet18
from fairweight.reweight import Reweighter
from fairweight.reweight.forml import FORML
from fairweight.reweight.uniform import Uniform
from fairweight.types import Batch


def compiled(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    return torch.compile(graph, dynamic=False)  # type: ignore[no-any-return]


def methods(n: int) -> dict[str, tuple[Callable[[torch.nn.Module], Reweighter], bool, bool]]:
    """By name: what makes the method, whether the model is compiled, whether the step is captured."""

    def forml(**options: Any) -> Callable[[torch.nn.Module], Reweighter]:
        return lambda model: FORML(model, n, agreement_every=0, **options)

    return {
        "plain, eager": (lambda m: Uniform(m, n), False, False),
        "double backward, eager": (forml(gradient="double-backward"), False, False),
        "forward, eager": (forml(gradient="forward"), False, False),
        "difference, eager": (forml(gradient="difference"), False, False),
        "traced, eager": (forml(gradient="forward", trace=True), False, False),
        "plain, graph": (lambda m: Uniform(m, n), False, True),
        "forward, graph": (forml(gradient="forward"), False, True),
        "difference, graph": (forml(gradient="difference"), False, True),
        "traced, graph": (forml(gradient="forward", trace=True), False, True),
        "plain, compiled, graph": (lambda m: Uniform(m, n), True, True),
        "traced, compiled, graph": (forml(gradient="forward", trace=compiled), False, True),
        "at rest, difference, graph": (forml(gradient="difference", look_ahead=None), False, True),
    }


def measure(
    name: str, make: Any, compile_model: bool, captured: bool, given: argparse.Namespace, size: int
) -> dict[str, Any]:
    device = given.device
    torch.manual_seed(0)
    model = ResNet18(10, width=given.width).to(device)
    if device == "cuda":
        model = model.to(memory_format=torch.channels_last)
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
    start = torch.cuda.memory_allocated() if device == "cuda" else 0
    run = torch.compile(model, dynamic=False) if compile_model else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, nesterov=True, weight_decay=5e-4)
    reweighter = make(run)
    x = torch.randn(size, 3, 32, 32, device=device)
    e = torch.randn(given.exemplars, 3, 32, 32, device=device)
    if device == "cuda":
        x, e = (t.to(memory_format=torch.channels_last) for t in (x, e))
    batch = Batch(x, torch.arange(size, device=device) % 10, rows=torch.arange(size, device=device))
    exemplar = Batch(e, torch.arange(given.exemplars, device=device) % 10)
    captor = CapturedStep(reweighter, optimizer) if captured else None

    def step() -> None:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=given.bf16):
            if captor is not None:
                captor(batch, exemplar)
            else:
                reweighter.step(batch, exemplar, optimizer, check=False)

    began = time.perf_counter()
    for _ in range(6 if device == "cuda" else 2):
        step()
    times = []
    if device == "cuda":
        torch.cuda.synchronize()
        warm = time.perf_counter() - began
        for _ in range(given.repeats):
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record()
            step()
            b.record()
            b.synchronize()
            times.append(a.elapsed_time(b))
    else:
        warm = time.perf_counter() - began
        for _ in range(given.repeats):
            t = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - t))
    peak = (torch.cuda.max_memory_allocated() - start) / 2**20 if device == "cuda" else None
    graphs = getattr(reweighter, "_graphs", None)
    return {
        "name": name, "batch": size, "median_ms": statistics.median(times), "low_ms": min(times), "n": len(times),
        "peak_mib": peak, "warm_up_s": warm, "refusal": captor.refusal if captor else None,
        "trace_refusal": graphs.refusal if graphs else None,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[128])
    parser.add_argument("--exemplars", type=int, default=30)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--only", nargs="*", help="names to measure")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    results = []
    for size in given.batch:
        for name, (make, compile_model, captured) in methods(size).items():
            if given.only and name not in given.only:
                continue
            if given.device == "cpu" and (captured or compile_model):
                continue
            try:
                found = measure(name, make, compile_model, captured, given, size)
            except Exception as error:
                found = {"name": name, "batch": size, "error": f"{type(error).__name__}: {str(error)[:300]}"}
            results.append(found)
            print(json.dumps(found), flush=True)
            torch._dynamo.reset()
    if given.out:
        record = {"what": "step time", "width": given.width, "bf16": given.bf16, "exemplars": given.exemplars,
                  "results": results, **provenance(given.device)}  # fmt: skip
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
