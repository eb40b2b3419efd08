"""Which runs are kept as golden curves, and how one is recorded and compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.golden.nets import EXEMPLARS, SHAPES, TRAIN, model, samples
from torch import Tensor

import fairweight as fw
from fairweight import catalog

FOLDER = Path(__file__).parent / "curves"
METHODS = "methods"  # the folder that the catalog looks in: where it gets another name, this is the line
STEPS, BATCH = 20, 12
HOW_TO_WRITE = "To write golden files: .venv/bin/python -m tests.golden.write (and say in the commit why they changed)."


def methods() -> dict[str, type[fw.Reweighter]]:
    """Every method by its name, found as users find them."""
    return {name: catalog.load(METHODS, name) for name in catalog.names(METHODS)}


@dataclass(frozen=True)
class Case:
    """One run: a method with its options, on a net."""

    method: str
    net: str
    variant: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    record: Callable[[Case], dict[str, Any]] | None = None  # None: a loop of one's own
    rtol: float = 1e-9

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.method, self.variant, self.net) if part)


@contextmanager
def _deterministic() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield
    finally:
        torch.set_num_threads(threads)


def record(case: Case) -> dict[str, Any]:
    """The run's numbers, as they would be read back from its file."""
    with _deterministic():
        found = (case.record or _own_loop)(case)
    return json.loads(json.dumps(_rounded(found)))


def _own_loop(case: Case) -> dict[str, Any]:
    """Twenty steps as somebody's own loop takes them, with the hooks that `fit` would call."""
    net = model(case.net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    train, exemplar = samples(case.net, TRAIN, 1), samples(case.net, EXEMPLARS, 2)
    method = methods()[case.method](net, TRAIN, **case.options)
    method.begin(train, exemplar)
    draw = torch.Generator().manual_seed(4)
    per_epoch, steps = TRAIN // BATCH, []
    for step in range(STEPS):
        if step % per_epoch == 0:
            draws = method.sampling_weights()
            even = torch.randperm(TRAIN, generator=draw)
            order = even if draws is None else torch.multinomial(draws.double(), TRAIN, True, generator=draw)
        place = step % per_epoch * BATCH
        done = method.step(train.take(order[place : place + BATCH]), exemplar, optimizer)
        steps.append(_numbers(done))
        if (step + 1) % per_epoch == 0:
            method.on_epoch((step + 1) // per_epoch, lambda some: fw.predict(net, some))
    return {"steps": steps, **_end(net, method)}


def _in_fit(case: Case) -> dict[str, Any]:
    """Four epochs of `fit`: its samplers, accumulation, clipping, schedule and validation."""
    net = model(case.net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    method = methods()[case.method](net, TRAIN, **case.options)
    steps: list[dict[str, Any]] = []

    class Kept(fw.Observer):
        """Keeps every step's numbers."""

        def on_step(self, step: int, record: fw.StepRecord) -> None:
            steps.append(_numbers(record))

    options = fw.FitOptions(batch_size=8, per_cell=2, seed=5, clip_norm=1.0, accumulate=2)
    train, exemplar, held = (samples(case.net, size, k) for k, size in enumerate((TRAIN, EXEMPLARS, EXEMPLARS), 1))
    done = fw.fit(
        net, optimizer, method, train, exemplar, 4, [Kept()], validation=held, scheduler=schedule, options=options
    )
    history = [{key: value for key, value in entry.items() if key != "seconds"} for entry in done.history]
    return {"steps": steps, "history": history, **_end(net, method)}


def _numbers(done: fw.StepRecord) -> dict[str, Any]:
    return {
        "loss": float(done.loss),
        "losses_sum": float(done.losses.sum()),
        "losses": done.losses[:3].tolist(),
        "weights_squares": float(done.weights.square().sum()),
        "weights": done.weights[:3].tolist(),
    }


def _end(net: torch.nn.Module, method: fw.Reweighter) -> dict[str, Any]:
    return {
        "scores": _few(method.scores),
        "sample_weights": _few(method.weights()),
        "state": {name: float(value.double().norm()) for name, value in net.state_dict().items()},
    }


def _few(values: Tensor | None) -> dict[str, Any] | None:
    return None if values is None else {"norm": float(values.double().norm()), "entries": values[::6].tolist()}


def _rounded(tree: Any) -> Any:
    """To 15 significant digits, which JSON gives back as they are."""
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_rounded(value) for value in tree]
    return float(f"{tree:.15g}") if isinstance(tree, float) else tree


def file_of(case: Case) -> Path:
    """Where the case's curve lies."""
    return FOLDER / f"{case.name}.json"


def as_text(found: dict[str, Any]) -> str:
    """JSON with one line for each step and each part of the end, so that a diff says where it begins."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items() if key != "steps"]
    steps = ",\n".join(json.dumps(step) for step in found["steps"])
    return "{" + f'"steps": [\n{steps}\n],\n' + ",\n".join(lines) + "}\n"


def differences(found: Any, kept: Any, rtol: float, where: str = "") -> list[str]:
    """Where two trees of numbers part, in the order of the run; the first is where it went another way."""
    if isinstance(kept, dict) and isinstance(found, dict) and kept.keys() == found.keys():
        return [line for key in kept for line in differences(found[key], kept[key], rtol, f"{where}/{key}")]
    if isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        return [line for k in range(len(kept)) for line in differences(found[k], kept[k], rtol, f"{where}/{k}")]
    if isinstance(kept, float) and isinstance(found, float):
        rtol = max(rtol, 1e-6) if "/validation/" in where else rtol  # fit computes these in float32
        both_nan = math.isnan(kept) and math.isnan(found)
        same = both_nan or math.isclose(found, kept, rel_tol=rtol, abs_tol=1e-12)
    else:
        same = found == kept
    return [] if same else [f"{where}: {found!r}, golden {kept!r}"]


# A difference of two passes that lie about 1e-7 apart keeps nine digits of sixteen: rounding in another order, which
# a refactoring may bring, moves the gradient by some 1e-9.
DIFFERENCE = 1e-6
# These draw or embed in float32, whose last digit depends on the processor's instructions.
SINGLE = {("random", ""): 1e-6, ("random", "redrawn"): 1e-6, ("moew", "autoencoder"): 1e-6}
FORML = [
    ("plain-step", {"score_step": fw.PlainStep(scale=50.0)}),
    ("reverse-plain-step", {"score_step": fw.PlainStep(scale=50.0, reverse=True)}),
    ("reverse", {"look_ahead": fw.LookAhead(reverse=True)}),
    ("optimizer-direction", {"look_ahead": fw.LookAhead(direction="optimizer")}),
    ("running-statistics", {"look_ahead": fw.LookAhead(lr=0.3, statistics="running")}),
    ("at-rest", {"look_ahead": None}),
    ("tie-label", {"tie": "label"}),
    ("tie-group", {"tie": "group", "own": False}),
    ("tie-cell", {"tie": "cell"}),
    ("forward", {"gradient": "forward"}),
    ("difference", {"gradient": "difference"}),
    ("double-backward", {"gradient": "double-backward"}),
    ("every-5", {"every": 5}),
    ("traced", {"trace": True}),
    ("direction-memory", {"direction_memory": 0.5}),
    ("logit-scale", {"form": "logit-scale"}),
    ("inverse-square", {"form": "inverse-square"}),
    ("raw-mean", {"form": "raw-mean"}),
    ("sigmoid", {"form": "sigmoid"}),
    ("discrepancy", {"objective": fw.MeanLoss() + 0.5 * fw.MaxLossDiscrepancy()}),
    ("equal-odds", {"objective": fw.EqualOddsLoss()}),
    ("worst-group", {"objective": fw.WorstGroupLoss()}),
]
# The path that these take depends on the net: its kernels, its running statistics, its submodules.
ON_OTHER_NETS = [
    ("conv", "running-statistics", {"look_ahead": fw.LookAhead(lr=0.3, statistics="running")}),
    ("conv", "forward", {"gradient": "forward"}),
    ("conv", "difference", {"gradient": "difference"}),
    ("conv", "scope", {"scope": "3,7"}),
    ("conv", "scope-head", {"scope": "head"}),
    ("conv", "traced", {"trace": True}),
    ("conv", "heed", {"score_step": fw.AdaptiveStep(heed=1.0), "agreement_every": 3}),  # exemplars agree on this net
    ("transformer", "forward", {"gradient": "forward"}),
    ("transformer", "difference", {"gradient": "difference"}),
    ("transformer", "scope", {"scope": "encoder"}),
    ("transformer", "scope-head", {"scope": "head"}),
]
# Options with which the other methods do what their defaults do not: `given` without weights is uniform, for example.
OTHERS = [
    ("random", "redrawn", {"kind": "redrawn"}),
    ("random", "sampling", {"kind": "uniform", "through": "sampling"}),
    ("proportion", "cell", {"by": "cell"}),
    ("proportion", "sampling", {"by": "label", "through": "sampling"}),
    ("class-balanced", "group", {"beta": 0.9, "by": "group"}),
    ("class-difficulty", "train", {"measured_on": "train", "tau": 1.5}),
    ("label-bias", "equal-opportunity", {"constraint": "equal-opportunity", "rate": 0.3}),
    ("label-bias", "equal-odds", {"constraint": "equal-odds"}),
    ("label-bias", "equal-recall", {"constraint": "equal-recall", "measured_on": "exemplar"}),
    ("label-bias", "rate", {"constraint": "rate", "target": {2: 0.1}, "through": "sampling"}),
    ("moew", "alpha", {"alpha": [0.4, -0.8, 0.1]}),
    ("moew", "autoencoder", {"alpha": [0.4, -0.8], "embedding": "autoencoder", "dimension": 2, "embedding_steps": 5}),
    ("given", "weights", {"weights": [0.5, 1.0, 1.5] * (TRAIN // 3)}),
    ("given", "sampling", {"weights": [0.5, 1.0, 0.0] * (TRAIN // 3), "through": "sampling"}),
    ("group-dro", "adjusted", {"by": "group", "normalised": False, "adjustment": 1.0, "draws": "balanced"}),
    ("jtt", "sampling", {"through": "sampling"}),
    ("jtt", "errors", {"errors": [0, 5, 7], "upweight": 3.0}),
    ("focal", "normalised", {"normalised": True, "gamma": 0.5}),
    ("l2rw", "forward", {"gradient": "forward", "objective": fw.MaxLossDiscrepancy()}),
    ("meta-weight-net", "sgd", {"normalised": False, "detached": False, "net_optimizer": "sgd"}),
]


def _cases() -> list[Case]:
    found = [Case(name, net, rtol=SINGLE.get((name, ""), Case.rtol)) for name in methods() for net in SHAPES]
    variants = [("mlp", *variant) for variant in FORML] + ON_OTHER_NETS
    for net, variant, options in variants:
        rtol = DIFFERENCE if variant == "difference" else Case.rtol
        found.append(Case("forml", net, variant, options, rtol=rtol))
    for name, variant, options in OTHERS:
        found.append(Case(name, "mlp", variant, options, rtol=SINGLE.get((name, variant), Case.rtol)))
    found += [Case(name, "mlp", "in-fit", record=_in_fit) for name in ("forml", "uniform", "group-dro", "l2rw")]
    return found


CASES = _cases()
