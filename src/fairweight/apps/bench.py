"""Measure time and memory of one step: plain training, FORML in each of its ways, and double backward."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from fairweight.apps._train_text import columns
from fairweight.errors import FairweightError
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.methods.uniform import Uniform
from fairweight.types import Batch

Make = Callable[[nn.Module, int], Reweighter]


@dataclass(frozen=True)
class Way:
    """One way to take a step."""

    name: str
    make: Make
    regime: str  # "eager", "graph" (captured as a CUDA graph) or "compiled" (and captured)
    exact: bool = True


@dataclass(frozen=True)
class Timing:
    """What one way cost."""

    name: str
    regime: str
    exact: bool
    batch: int
    median_ms: float | None  # None: it did not run, and `refusal` says why
    low_ms: float | None = None
    n: int = 0
    peak_mib: float | None = None  # beyond what was allocated before; on a GPU alone
    warm_up_s: float | None = None
    refusal: str | None = None


def _forml(model: nn.Module, n: int, *, gradient: str, backend: str | None = None, **options: Any) -> FORML:
    method = FORML(model, n, agreement_every=0, gradient=gradient, **options)
    if backend is not None:
        method.compile(backend)
    return method


def ways(device: str) -> list[Way]:
    """What is measured on a device; the plain step of each regime comes first."""

    def way(name: str, gradient: str, regime: str = "eager", *, exact: bool = True, **options: Any) -> Way:
        return Way(name, partial(_forml, gradient=gradient, **options), regime, exact)

    found = [
        Way("plain", Uniform, "eager"),
        way("per layer", "per-layer"),
        way("forward", "forward"),
        way("double backward", "double-backward"),
        way("per layer, traced", "per-layer", backend="eager"),
        way("forward, traced", "forward", backend="eager"),
        way("difference", "difference", exact=False),
        way("per layer, statistics held constant", "per-layer-frozen", exact=False),
        way("forward at θ (look_ahead=None)", "forward", exact=False, look_ahead=None),
        way("every=5, forward", "forward", exact=False, every=5),
    ]
    if device.startswith("cuda"):
        found += [
            Way("plain", Uniform, "graph"),
            way("per layer", "per-layer", "graph"),
            way("double backward", "double-backward", "graph"),
            way("forward", "forward", "graph"),
            way("forward, traced", "forward", "graph", backend="eager"),
            Way("plain", Uniform, "compiled"),
            way("per layer, traced", "per-layer", "compiled", backend="inductor"),
            way("forward, traced", "forward", "compiled", backend="inductor"),
            way("every=5, traced", "forward", "compiled", exact=False, backend="inductor", every=5),
        ]
    return found


def bench(
    model: nn.Module,
    batch: Batch,
    exemplar: Batch,
    *,
    repeats: int = 30,
    bf16: bool = False,
    more: Sequence[Way] = (),
    seconds: float = math.inf,
    tell: Callable[[Timing], None] = lambda _: None,
) -> list[Timing]:
    """Measure every way, and more of them, on copies of the model; the model itself stays as it is.

    seconds: what all of it may take; ways get an equal share of what is left and take fewer steps, and one that
    would not end in time is left out.
    """
    results = []
    wanted = [*ways(batch.labels.device.type), *more]
    end = time.perf_counter() + seconds
    longest = plain = 0.0  # seconds of a step so far; of the plain one
    for k, way in enumerate(wanted):
        left = end - time.perf_counter()
        try:
            if left < max(3 * longest, _WARM * plain):
                raise TimeoutError(f"left out: {seconds:.0f} seconds are spent")  # the caller says how to give more
            found = measure(way, model, batch, exemplar, repeats=repeats, bf16=bf16, seconds=left / (len(wanted) - k))
            longest = max(longest, (found.median_ms or 0.0) / 1000)
            plain = longest if k == 0 else plain
        except (FairweightError, RuntimeError, TimeoutError) as error:
            sentence = str(error).strip().split("\n")[0]
            found = Timing(way.name, way.regime, way.exact, len(batch), None, refusal=sentence)
        results.append(found)
        tell(found)
    return results


# Plain steps that all ways together are worth on a CPU: warming up twice and timing three steps each; and what a way
# is worth at least, by its trial and its first steps.
_WORTH, _WARM = 150, 15


def shortened(model: nn.Module, batch: Batch, exemplar: Batch, seconds: float) -> tuple[Batch, Batch]:
    """As many of the samples as leave every way its turn in these seconds, guessed from a plain step on a few."""

    def some(part: Batch, count: int) -> Batch:
        return part.take(torch.arange(count, device=batch.labels.device))

    size, factor = len(batch), 1
    few = some(batch, max(2, size // 16))
    ready = warmed(Way("plain", Uniform, "eager"), model, few, exemplar, bf16=False)
    needed = _WORTH * ready.times(1)[0] / 1000 * size / len(few)
    while needed / factor > seconds and size // (2 * factor) >= 8:
        factor *= 2
    if factor == 1:
        return batch, exemplar
    return some(batch, size // factor), some(exemplar, max(4, len(exemplar) // factor))


@dataclass(frozen=True)
class Ready:
    """A way that is warm: compiled, captured, and about to be timed."""

    step: Callable[[], None]
    every: int  # steps after which their kinds repeat
    warm_up_s: float
    peak_mib: float | None
    refusal: str | None

    def times(self, repeats: int, seconds: float = math.inf) -> list[float]:
        """Milliseconds of so many steps, rounded up to whole rounds; of fewer where those take longer than seconds."""
        found: list[float] = []
        for k in range(-(-repeats // self.every) * self.every):
            if k and k % self.every == 0 and sum(found) > 1000 * seconds:
                break
            found.append(timed(self.step, self.peak_mib is not None))
        return found


def warmed(way: Way, model: nn.Module, batch: Batch, exemplar: Batch, *, bf16: bool) -> Ready:
    """Take the first steps this way on a copy of the model."""
    device = batch.labels.device
    on_gpu = device.type == "cuda"
    twin = copy.deepcopy(model)
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    parameters = [p for p in twin.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=1e-5, momentum=0.9, nesterov=True, weight_decay=5e-4)
    reweighter = way.make(twin, len(batch))
    if way.regime == "compiled":
        reweighter.compile()
    captured = CapturedStep(reweighter, optimizer) if way.regime != "eager" else None

    def step() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            if captured is not None:
                captured(batch, exemplar)
            else:
                reweighter.step(batch, exemplar, optimizer, check=False)

    started = time.perf_counter()
    every = getattr(reweighter, "every", 1)  # steps differ in kind: each must be captured, and whole rounds timed
    for _ in range(20 if on_gpu and every > 1 else 6 if on_gpu else 2):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    warm_up = time.perf_counter() - started
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20 if on_gpu else None
    refused = (one.refusal for one in (captured, getattr(reweighter, "_traced", None)) if one is not None)
    return Ready(step, every, warm_up, peak, next(filter(None, refused), None))


def measure(
    way: Way, model: nn.Module, batch: Batch, exemplar: Batch, *, repeats: int, bf16: bool, seconds: float = math.inf
) -> Timing:
    """Median time of a step; the mean if steps differ in kind. seconds: warming up included."""
    ready = warmed(way, model, batch, exemplar, bf16=bf16)
    times = ready.times(repeats, max(0.0, seconds - ready.warm_up_s))
    middle = statistics.median(times) if ready.every == 1 else statistics.mean(times)
    numbers = (middle, min(times), len(times), ready.peak_mib, ready.warm_up_s, ready.refusal)
    return Timing(way.name, way.regime, way.exact, len(batch), *numbers)


def timed(step: Callable[[], Any], on_gpu: bool) -> float:
    """Milliseconds of a step."""
    if not on_gpu:
        started = time.perf_counter()
        step()
        return 1000 * (time.perf_counter() - started)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    step()
    end.record()
    end.synchronize()
    took: float = start.elapsed_time(end)
    return took


def text(results: Sequence[Timing]) -> str:
    """Table for a terminal: each way in multiples of the plain step of its regime."""
    plain = {r.regime: r for r in results if r.name == "plain" and r.median_ms is not None}
    rows: list[tuple[str, ...]] = [("", "regime", "ms", "least", "n", "× plain", "memory ×")]
    for r in results:
        name, base = r.name if r.exact else f"{r.name} (approximate)", plain.get(r.regime, r)
        ratios = ((r.median_ms, base.median_ms), (r.peak_mib, base.peak_mib))
        times = [f"{ours / theirs:.2f}" if ours and theirs and r.regime in plain else "–" for ours, theirs in ratios]
        ms = ["–" if value is None else f"{value:.2f}" for value in (r.median_ms, r.low_ms)]
        rows.append((name, r.regime, *ms, str(r.n), *times))
    refused = [f"{r.name}, {r.regime}: {r.refusal}" for r in results if r.median_ms is None]
    return "\n".join(
        [columns(rows), *refused, "ms: the median of n steps; of ways whose steps differ in kind, the mean."]
    )
