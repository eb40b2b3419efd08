"""The exact step beside plain training, fast modes and the other ways, on transformers and ResNets with either norm.

    PYTHONPATH=src python benchmarks/per_layer.py --out per_layer.json              a GPU, bfloat16; torch alone
    PYTHONPATH=src python benchmarks/per_layer.py --only "ResNet-18 BN" --ways fast --out fast.json
    PYTHONPATH=src python benchmarks/per_layer.py --device cpu --quick              small models, eager, float32

Ways take turns, so that a clock that drifts meets all of them. Every measurement is written as soon as it is made; one
that fails leaves its error in words. --seconds: ways that would begin later are left out, and said to be.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from per_layer_models import Case, cases
from torch import Tensor, nn

import fairweight as fw
from fairweight.fast import per_layer_graph, step_graph
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.metagradient.passes import classification_loss


@dataclass
class Measured:
    model: str
    way: str
    regime: str
    median_ms: float | None = None
    quartiles_ms: list[float] | None = None
    n: int = 0
    peak_mib: float | None = None  # of a step, with the model and its optimizer
    warm_up_s: float | None = None
    mode: str | None = None
    error: str | None = None
    every: int = 1  # steps after which their kinds repeat
    times: list[float] = field(default_factory=list, repr=False)


def forml(model: nn.Module, n: int, **options: Any) -> fw.FORML:
    return fw.FORML(model, n, agreement_every=0, **options)


FAST: dict[str, dict[str, Any]] = {
    "exact": {},
    "exact, apart": {},  # a convolution's tangent as two convolutions
    "every=5": {"every": 5},
    "at rest": {"look_ahead": None},
    "at rest, every=5": {"look_ahead": None, "every": 5},
    "head, every=5": {"scope": "head", "every": 5},
}
OPTIONS: dict[str, dict[str, Any]] = {
    **{g: {"gradient": g} for g in ("per-layer", "forward", "double-backward")},
    **FAST,
}
WAYS = [
    *((way, regime) for regime in ("eager", "graph", "compiled") for way in ("plain", "per-layer")),
    ("per-layer", "traced"),  # on a CPU: one graph, not compiled
    *((way, regime) for regime in ("eager", "graph") for way in ("forward", "double-backward")),
]
FAST_WAYS = [(way, "compiled") for way in ("plain", *FAST)]
SLOW = {"forward", "double-backward"}


class OneFunction:
    """Plain training with forward and backward pass as one compiled function: the best that torch.compile does."""

    def __init__(self, model: nn.Module, batch: fw.Batch, optimizer: torch.optim.Optimizer) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        self.named, self.optimizer = dict(model.named_parameters()), optimizer

        def gradients(*flat: Tensor) -> list[Tensor]:
            own = {name: t.detach().requires_grad_() for name, t in zip(self.named, flat[:-2], strict=True)}
            with torch.enable_grad():
                logits = torch.func.functional_call(model, own, (flat[-2],))
                loss = classification_loss(logits, flat[-1]).mean()
                return [loss.detach(), *torch.autograd.grad(loss, list(own.values()))]

        torch.set_autocast_cache_enabled(False)
        with torch.no_grad(), per_layer_graph.LayoutKept():
            traced = make_fx(gradients, tracing_mode="fake")(*self._flat(batch))
        torch.set_autocast_cache_enabled(True)
        self.compiled = torch.compile(traced, dynamic=False)

    def _flat(self, batch: fw.Batch) -> list[Tensor]:
        return [*(p.detach() for p in self.named.values()), batch.inputs, batch.labels]

    def __call__(self, batch: fw.Batch) -> None:
        with torch.no_grad(), torch.autocast(batch.labels.device.type, enabled=False):
            _, *slopes = self.compiled(*self._flat(batch))
        for p, slope in zip(self.named.values(), slopes, strict=True):
            p.grad = slope
        self.optimizer.step()


@dataclass
class Ready:
    """A way that is warm."""

    step: Callable[[], None]
    found: Measured
    held: Any  # what must not be freed


def batches(case: Case, device: str) -> tuple[fw.Batch, fw.Batch]:
    def drawn(n: int) -> fw.Batch:
        inputs = case.inputs(n).to(device)
        if case.wide:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        rows = torch.arange(n, device=device)
        return fw.Batch(inputs, rows % case.classes, rows % 2, rows)

    return drawn(case.batch), drawn(case.exemplars)


def warmed(case: Case, key: tuple[str, str], model: nn.Module, device: str, bf16: bool) -> Ready:
    way, regime = key
    found = Measured(case.name, way, regime)
    gpu = device == "cuda"
    if gpu:
        torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated() if gpu else 0
    train, held = batches(case, device)
    twin = copy.deepcopy(model)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(twin.parameters(), lr=1e-4)
    if not case.adam:
        optimizer = torch.optim.SGD(twin.parameters(), lr=1e-5, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def cast() -> Any:
        return torch.autocast(device, dtype=torch.bfloat16, enabled=bf16)

    started = time.perf_counter()
    if way == "plain, one function":
        with cast():
            one = OneFunction(twin, train, optimizer)
            for _ in range(3):
                one(train)

        def once() -> None:
            with cast():
                one(train)

        graph = _captured(once) if gpu else None
        step: Callable[[], None] = once if graph is None else graph.replay
    else:
        step_graph.JOIN = False if way == "exact, apart" else None
        reweighter = fw.Uniform(twin, case.batch) if way == "plain" else forml(twin, case.batch, **OPTIONS[way])
        if regime in ("compiled", "traced"):
            reweighter.compile(*(["eager"] if regime == "traced" else []))

        def once() -> None:
            with cast():
                reweighter.step(train, held if way != "plain" else None, optimizer, check=False)

        every = getattr(reweighter, "every", 1)
        for _ in range(2 * every):
            once()
        found.every = every
        captured = CapturedStep(reweighter, optimizer) if regime not in ("eager", "traced") and gpu else None

        def step() -> None:
            with cast():
                captured(train, held if way != "plain" else None) if captured is not None else once()

    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    once()
    if gpu:
        found.peak_mib = (torch.cuda.max_memory_allocated() - before) / 2**20
    for _ in range((6 if gpu else 1) * found.every):
        step()
    if gpu:
        torch.cuda.synchronize()
    found.warm_up_s = time.perf_counter() - started
    if way != "plain, one function":
        graphs = getattr(reweighter, "_traced", None)
        refusals = [None if captured is None else captured.refusal, None if graphs is None else graphs.refusal]
        made = getattr(getattr(graphs, "step", None), "first", None)
        if made is not None and getattr(made, "_made", None) is getattr(made, "_plain", made):
            refusals.append("torch.compile failed, see the log; the graph runs as it is")
        found.mode = str(getattr(reweighter, "mode", None))
        found.error = "; ".join(f"refused: {r}" for r in refusals if r) or None
    return Ready(step, found, (train, held, twin, optimizer, once))  # a graph that replays keeps nothing alive


def _captured(once: Callable[[], None]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph


def timed(step: Callable[[], None], gpu: bool) -> float:
    if not gpu:  # the process's own time, where one thread does all: other processes do not count then
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        started = clock()
        step()
        return 1000 * (clock() - started)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@contextmanager
def in_turn(name: str) -> Iterator[None]:
    """Where BENCH_TURNS=FOLDER,COUNT is set: wait until so many processes are warm, then time one at a time.

    Compiling is most of the work, and several models compile side by side; their timings must not.
    """
    folder, _, count = os.environ.get("BENCH_TURNS", "").partition(",")
    if not folder:
        yield
        return
    import fcntl

    (Path(folder) / f"{name.replace('/', '-')}.{os.getpid()}.warm").touch()
    limit = time.monotonic() + 300
    while len(list(Path(folder).glob("*.warm"))) < int(count) and time.monotonic() < limit:
        time.sleep(0.2)
    with (Path(folder) / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def take_turns(ready: list[Ready], rounds: int, each: int, gpu: bool) -> None:
    for _ in range(rounds):
        for way in ready:
            slow = way.found.way in SLOW
            count = (max(1, each // 5) if slow else each) * way.found.every
            taken = [timed(way.step, gpu) for _ in range(count)]
            rounds_of = range(0, count, way.found.every)  # of steps that differ in kind, the mean of a round
            way.found.times += [statistics.mean(taken[k : k + way.found.every]) for k in rounds_of]
    for way in ready:
        times = way.found.times
        way.found.median_ms, way.found.n = statistics.median(times), len(times)
        way.found.quartiles_ms = statistics.quantiles(times, n=4)[::2] if len(times) > 1 else None


def agreement(case: Case, model: nn.Module, device: str, bf16: bool) -> dict[str, Any]:
    """How the pull per layer compares: with forward mode in float32, and in the precision that is measured."""
    train, held = batches(case, device)
    pulls = {}
    asked = [("per-layer", False), ("forward", False), *([("per-layer", True), ("forward", True)] if bf16 else [])]
    for gradient, low in asked:
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=1e-3)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=low):
            made = forml(twin, case.batch, gradient=gradient).backward(train, held, optimizer)
        slope = torch.cat([p.grad.double().flatten() for p in twin.parameters() if p.grad is not None])
        pulls[gradient, low] = (made.pull.double(), slope)
    true = pulls["forward", False]
    return {
        f"{gradient}, {'bfloat16' if low else 'float32'}": {
            "pull_error": float((found[0] - true[0]).norm() / true[0].norm()),
            "gradient_error": float((found[1] - true[1]).norm() / true[1].norm()),
        }
        for (gradient, low), found in pulls.items()
        if (gradient, low) != ("forward", False)
    }


def keys(device: str) -> list[tuple[str, str]]:
    if device == "cpu":
        return [key for key in WAYS if key[1] in ("eager", "traced")]
    found = [key for key in WAYS if key[1] != "traced"]
    found.insert(found.index(("per-layer", "compiled")), ("plain, one function", "compiled"))
    order = {"compiled": 0, "eager": 1, "graph": 2}
    return sorted(found, key=lambda key: (key[0] in SLOW, order[key[1]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="small models, for a CPU")
    parser.add_argument("--only", default="", help="models whose names hold this")
    parser.add_argument("--ways", default="", help="way:regime with semicolons between; 'fast': plain and fast modes")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=340.0)
    parser.add_argument("--keep-layout", action="store_true", help="group norm that keeps channels last in the trace")
    parser.add_argument("--width", type=int, default=0, help="of the ResNet with batch norm, to try this on a CPU")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if not asked.keep_layout:
        per_layer_graph.LayoutKept = nullcontext
    started = time.perf_counter()
    gpu = asked.device == "cuda"
    document: dict[str, Any] = {
        "torch": torch.__version__, "device": torch.cuda.get_device_name() if gpu else "cpu", "results": [],
        "agreement": {}, "ratios": [], "keep_layout": asked.keep_layout,
    }  # fmt: skip
    wanted = keys(asked.device)
    if asked.ways == "fast":
        wanted = FAST_WAYS
    elif asked.ways:
        wanted = [(way, regime) for way, regime in (word.rsplit(":", 1) for word in asked.ways.split(";"))]

    def write() -> None:
        document["seconds"] = time.perf_counter() - started
        if asked.out is not None:
            asked.out.write_text(json.dumps(document, indent=1) + "\n")

    for case in cases(asked.quick):
        if asked.width and case.name == "ResNet-18 BN":
            case = replace(case, model=lambda: fw.ResNet18(10, width=asked.width), batch=16, exemplars=6)
        if asked.only not in case.name:
            continue
        torch.manual_seed(0)
        model = case.model().to(asked.device)
        if case.wide:
            model = model.to(memory_format=torch.channels_last)
        ready: list[Ready] = []
        for key in wanted:
            found = Measured(case.name, *key)
            try:
                if time.perf_counter() - started > asked.seconds:
                    raise TimeoutError("left out: the time is spent")
                ready.append(warmed(case, key, model, asked.device, bf16=gpu))
                found = ready[-1].found
            except Exception as error:  # one way's failure must not lose the others' numbers
                found.error = f"{type(error).__name__}: {str(error).strip()[:600]}"
                if not isinstance(error, TimeoutError):
                    traceback.print_exc(limit=-4)
            document["results"].append(found)
            print(f"{case.name:20s} {key[0]:20s} {key[1]:9s} warm {found.warm_up_s or 0:6.1f} s  {found.error or ''}")
        with in_turn(case.name):
            take_turns(ready, asked.rounds, asked.each, gpu)
        document["results"] = [r if isinstance(r, dict) else _plain(r) for r in document["results"]]
        document["ratios"] += ratios(case, ready)
        write()
        del ready
        if gpu:
            torch.cuda.empty_cache()
        try:
            if asked.ways != "fast" and time.perf_counter() - started <= asked.seconds:
                document["agreement"][case.name] = agreement(case, model, asked.device, bf16=gpu)
        except Exception as error:
            document["agreement"][case.name] = f"{type(error).__name__}: {str(error).strip()[:300]}"
        write()
    print(json.dumps(document["agreement"], indent=1))
    print(f"{time.perf_counter() - started:.0f} s")


def ratios(case: Case, ready: list[Ready]) -> list[dict[str, Any]]:
    """Each way against plain training in the same regime, and the best against the best."""
    rows = []
    plain = {r.found.regime: r.found for r in ready if r.found.way.startswith("plain")}
    for r in ready:  # the faster of the two compiled ones
        if r.found.way.startswith("plain") and r.found.median_ms < plain[r.found.regime].median_ms:
            plain[r.found.regime] = r.found
    best = min(plain.values(), key=lambda m: m.median_ms, default=None)
    for r in ready:
        base = plain.get(r.found.regime, plain.get("eager") if r.found.regime == "traced" else None)
        row = {"model": case.name, "way": r.found.way, "regime": r.found.regime, "median_ms": r.found.median_ms}
        row["times_plain"] = None if base is None else r.found.median_ms / base.median_ms
        row["times_best_plain"] = None if best is None else r.found.median_ms / best.median_ms
        if base is not None and r.found.peak_mib and base.peak_mib:
            row["memory_times_plain"] = r.found.peak_mib / base.peak_mib
        row["target"] = case.target
        rows.append(row)
        print(
            f"{case.name:20s} {r.found.way:20s} {r.found.regime:9s} {r.found.median_ms:9.2f} ms  "
            f"× plain {row['times_plain'] or 0:5.2f}  × best plain {row['times_best_plain'] or 0:5.2f}  "
            f"memory × {row.get('memory_times_plain', 0):5.2f}  {r.found.mode or ''} {r.found.error or ''}"
        )
    return rows


def _plain(found: Measured) -> dict[str, Any]:
    return {key: value for key, value in vars(found).items() if key != "times"}


if __name__ == "__main__":
    main()
