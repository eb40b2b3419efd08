"""Measure time and memory of one step: plain training, FORML in each of its ways, and double backward."""

from __future__ import annotations

import copy
import io
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairweight.errors import FairweightError, option
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.methods.uniform import Uniform
from fairweight.models.mlp import MLP
from fairweight.training.state import write_atomically
from fairweight.types import Batch

Make = Callable[[nn.Module, int], Reweighter]
SAMPLES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
BATCHES = (32, 64, 128, 256, 512, 1024)


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

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _forml(backend: str | None = None, **options: Any) -> Make:
    def make(model: nn.Module, n: int) -> FORML:
        method = FORML(model, n, agreement_every=0, **options)
        if backend is not None:
            method.compile(backend)
        return method

    return make


def ways(device: str) -> list[Way]:
    """What is measured on a device; the plain step of each regime comes first."""
    found = [
        Way("plain", Uniform, "eager"),
        Way("per layer", _forml(gradient="per-layer"), "eager"),
        Way("forward", _forml(gradient="forward"), "eager"),
        Way("double backward", _forml(gradient="double-backward"), "eager"),
        Way("per layer, traced", _forml("eager", gradient="per-layer"), "eager"),
        Way("forward, traced", _forml("eager", gradient="forward"), "eager"),
        Way("difference", _forml(gradient="difference"), "eager", exact=False),
        Way("per layer, statistics held constant", _forml(gradient="per-layer-frozen"), "eager", exact=False),
        Way("forward at θ (look_ahead=None)", _forml(gradient="forward", look_ahead=None), "eager", exact=False),
        Way("every=5, forward", _forml(gradient="forward", every=5), "eager", exact=False),
    ]
    if device.startswith("cuda"):
        found += [
            Way("plain", Uniform, "graph"),
            Way("per layer", _forml(gradient="per-layer"), "graph"),
            Way("double backward", _forml(gradient="double-backward"), "graph"),
            Way("forward", _forml(gradient="forward"), "graph"),
            Way("forward, traced", _forml("eager", gradient="forward"), "graph"),
            Way("plain", Uniform, "compiled"),
            Way("per layer, traced", _forml("inductor", gradient="per-layer"), "compiled"),
            Way("forward, traced", _forml("inductor", gradient="forward"), "compiled"),
            Way("every=5, traced", _forml("inductor", gradient="forward", every=5), "compiled", exact=False),
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
    seconds: float | None = None,
    tell: Callable[[Timing], None] = lambda _: None,
) -> list[Timing]:
    """Measure every way, and more of them, on copies of the model; the model itself stays as it is.

    seconds: what all of it may take; ways get an equal share of what is left and take fewer steps, and one that
    would not end in time is left out.
    """
    results = []
    wanted = [*ways(batch.labels.device.type), *more]
    end = None if seconds is None else time.perf_counter() + seconds
    longest = plain = 0.0  # seconds of a step so far; of the plain one
    for k, way in enumerate(wanted):
        left = None if end is None else end - time.perf_counter()
        share = None if left is None else left / (len(wanted) - k)
        try:
            if left is not None and left < max(3 * longest, _WARM * plain):
                raise TimeoutError(f"left out: {seconds:.0f} seconds are spent; ask for more with {option('seconds')}")
            found = measure(way, model, batch, exemplar, repeats=repeats, bf16=bf16, seconds=share)
            longest = max(longest, (found.median_ms or 0.0) / 1000)
            plain = longest if k == 0 else plain
        except TimeoutError as error:
            found = Timing(way.name, way.regime, way.exact, len(batch), None, refusal=str(error))
        except (FairweightError, RuntimeError) as error:
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
    size = len(batch)
    few = batch.take(torch.arange(max(2, size // 16), device=batch.labels.device))
    ready = warmed(Way("plain", Uniform, "eager"), model, few, exemplar, bf16=False)
    needed = _WORTH * ready.times(1)[0] / 1000 * size / len(few)
    factor = 1
    while needed / factor > seconds and size // (2 * factor) >= 8:
        factor *= 2
    if factor == 1:
        return batch, exemplar
    kept = (torch.arange(n, device=batch.labels.device) for n in (size // factor, max(4, len(exemplar) // factor)))
    return batch.take(next(kept)), exemplar.take(next(kept))


@dataclass(frozen=True)
class Ready:
    """A way that is warm: compiled, captured, and about to be timed."""

    step: Callable[[], None]
    every: int  # steps after which their kinds repeat
    warm_up_s: float
    peak_mib: float | None
    refusal: str | None

    def times(self, repeats: int, seconds: float | None = None) -> list[float]:
        """Milliseconds of so many steps, rounded up to whole rounds; of fewer where those take longer than seconds."""
        found: list[float] = []
        for k in range(-(-repeats // self.every) * self.every):
            if seconds is not None and k and k % self.every == 0 and sum(found) > 1000 * seconds:
                break
            found.append(_timed(self.step, self.peak_mib is not None))
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
    optimizer = torch.optim.SGD(
        [p for p in twin.parameters() if p.requires_grad], lr=1e-5, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
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
    refusal = captured.refusal if captured is not None else None
    graphs = getattr(reweighter, "_traced", None)
    refusal = refusal or (graphs.refusal if graphs is not None else None)
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20 if on_gpu else None
    return Ready(step, every, warm_up, peak, refusal)


def measure(
    way: Way,
    model: nn.Module,
    batch: Batch,
    exemplar: Batch,
    *,
    repeats: int,
    bf16: bool,
    seconds: float | None = None,
) -> Timing:
    """Median time of a step; the mean if steps differ in kind. seconds: warming up included."""
    ready = warmed(way, model, batch, exemplar, bf16=bf16)
    times = ready.times(repeats, None if seconds is None else max(0.0, seconds - ready.warm_up_s))
    middle = statistics.median(times) if ready.every == 1 else statistics.mean(times)
    numbers = (middle, min(times), len(times), ready.peak_mib, ready.warm_up_s, ready.refusal)
    return Timing(way.name, way.regime, way.exact, len(batch), *numbers)


def _timed(step: Callable[[], None], on_gpu: bool) -> float:
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
    lines = [f"{'':46s}{'regime':10s}{'ms':>10s}{'least':>10s}{'n':>5s}{'× plain':>9s}{'memory ×':>10s}"]
    for r in results:
        if r.median_ms is None:
            lines.append(f"{r.name:46s}{r.regime:10s}{'–':>10s}   {r.refusal}")
            continue
        base = plain.get(r.regime)
        times = f"{r.median_ms / base.median_ms:.2f}" if base is not None and base.median_ms else "–"
        memory = f"{r.peak_mib / base.peak_mib:.2f}" if base is not None and r.peak_mib and base.peak_mib else "–"
        name = r.name if r.exact else f"{r.name} (approximate)"
        least = "–" if r.low_ms is None else f"{r.low_ms:.2f}"
        lines.append(f"{name:46s}{r.regime:10s}{r.median_ms:10.2f}{least:>10s}{r.n:5d}{times:>9s}{memory:>10s}")
    return "\n".join([*lines, "ms: the median of n steps; of ways whose steps differ in kind, the mean."])


def growth(device: str, *, repeats: int = 40, samples: tuple[int, ...] = SAMPLES) -> dict[str, list[dict[str, Any]]]:
    """Median step time by number of scores at batch 128, and by batch at 10,000 scores."""
    return {
        "samples": [_growth_time(device, n, 128, repeats) for n in samples],
        "batch": [_growth_time(device, 10_000, b, repeats) for b in BATCHES],
    }


def _growth_time(device: str, samples: int, size: int, repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = MLP(64, 10, (256, 256)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    forml = FORML(model, samples, gradient="forward", agreement_every=0)
    labels = torch.arange(size, device=device) % 10
    inputs = torch.randn(size, 64, device=device)
    exemplar = Batch(torch.randn(100, 64, device=device), torch.arange(100, device=device) % 10)

    def step() -> None:
        forml.step(Batch(inputs, labels, rows=next(rows)), exemplar, optimizer, check=False)

    rows = iter([torch.randint(0, samples, (size,), device=device) for _ in range(repeats + 3)])
    times = [_timed(step, device.startswith("cuda")) for _ in range(repeats + 3)][3:]
    low, middle, high = statistics.quantiles(times, n=4)
    spread = {"median_ms": middle, "quartiles_ms": [low, high], "n": repeats}
    return {"samples": samples, "batch": size, **spread, "score_bytes": 4 * samples}


def draw_growth(found: dict[str, list[dict[str, Any]]], path: Path) -> Path:
    """Draw two panels: time against scores, time against batch."""
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
    out = io.BytesIO()
    figure.savefig(out, dpi=150, format="png")
    plt.close(figure)
    write_atomically(path, out.getvalue())
    return path
