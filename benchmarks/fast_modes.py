"""FORML's fast modes beside the exact step: how like its pull, what the training ends with, what a step costs.

A fifth of the train labels is set to one class; exemplars, validation and test are clean. Every mode trains with the
defaults of FORML and the same seeds. While the exact one trains, the pull of each mode is compared with the exact
pull on the same batches, early (5 % of the steps), mid and at the end: rank correlation (Spearman).

Which mode is recommended, a rule that was written down before any number was seen: of the modes that cost at most
1.3 times the plain step, the one with the lowest mean of TPRD + error on validation over the first seeds (--choice:
all but the last five, and at least one). What is reported of test is of the seeds after those.

    python benchmarks/fast_modes.py --set mnist --data FOLDER --out FOLDER --seeds 8
    python benchmarks/fast_modes.py --set cifar10 --data FOLDER --device cuda --compile --out FOLDER --seconds 200

Finished runs in --out are taken as they are, so it may be stopped and started again. Needs torch and numpy alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fast_modes_data import SETTINGS, Parts, Setting, drawn, quick, read
from fast_modes_record import EXACT, MOMENTS, OTHER, PLAIN, summary, table
from torch import Tensor, nn

from fairweight.apps.bench import Way, measure
from fairweight.data.augment import Chain, Flip, Shift
from fairweight.metagradient import Mode, Scope, classification_loss, solve, virtual_forward
from fairweight.metagradient.scope import in_scope
from fairweight.metagradient.solve import Softmax
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.methods.uniform import Uniform
from fairweight.runs.provenance import provenance
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler
from fairweight.training.callbacks import Observer
from fairweight.training.fit import fit
from fairweight.training.options import FitOptions
from fairweight.training.predict import predict
from fairweight.types import Batch, StepRecord

MODES: dict[str, dict[str, Any]] = {
    EXACT: {},
    "every=2": {"every": 2},
    "every=5": {"every": 5},
    "look_ahead=None": {"look_ahead": None},
    "look_ahead=None, every=5": {"look_ahead": None, "every": 5},
    "statistics held constant": {"gradient": "per-layer-frozen"},
    "scope=block": {"scope": "block"},
    "scope=head": {"scope": "head"},
    "scope=head, every=2": {"scope": "head", "every": 2},
    "scope=head, every=5": {"scope": "head", "every": 5},
    "scope=head, look_ahead=None": {"scope": "head", "look_ahead": None},
}
PROBES = 8  # batches on which pulls are compared at each moment


def made(setting: Setting, mode: str, model: nn.Module, count: int) -> Reweighter:
    """The method of that name; a block's name is the setting's."""
    if mode == PLAIN:
        return Uniform(model, count)
    options = dict(MODES[mode])
    if options.get("scope") == "block":
        options["scope"] = setting.block
    return FORML(model, count, agreement_every=0, **options)


def spearman(a: Tensor, b: Tensor) -> float:
    """Correlation of the ranks."""
    ranks = [t.argsort().argsort().double() for t in (a, b)]
    x, y = ((r - r.mean()) / (r - r.mean()).norm() for r in ranks)
    return float((x * y).sum())


class Probe(Observer):
    """Compares each mode's pull with the exact one at the moments, at the parameters of that moment."""

    def __init__(
        self, setting: Setting, model: nn.Module, method: FORML, parts: Parts, optimizer: torch.optim.SGD, seed: int
    ) -> None:
        self.setting, self.model, self.method, self.parts = setting, model, method, parts
        self.optimizer, self.seed = optimizer, seed
        self.found: dict[str, dict[str, list[float]]] = {}
        self._at: dict[int, str] = {}

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        """When to look."""
        total = epochs * steps_per_epoch
        self._at = {max(1, round(total * share)) - 1: name for name, share in MOMENTS.items()}

    def on_step(self, step: int, record: StepRecord) -> None:
        """Look, where it is time to."""
        if step in self._at:
            self.found[self._at[step]] = self._look(step)

    def _look(self, step: int) -> dict[str, list[float]]:
        device = self.parts.train.labels.device
        cells = Cells.of(self.parts.exemplar.labels)
        draws = ExemplarSampler(cells, self.setting.per_class, self.seed + 1000, device=device)
        rows = TrainSampler(len(self.parts.train), self.setting.batch, self.seed + 1000, device=device)
        names = [m for m, options in MODES.items() if m != EXACT and not {"every", "gradient"} & set(options)]
        found: dict[str, list[float]] = {name: [] for name in (*names, OTHER)}
        for k in range(PROBES):
            batch = self.parts.train.take(rows.rows(step + k))
            first, second = (draws.batch(self.parts.exemplar, 2 * (step + k) + j) for j in (0, 1))
            exact = self._pull(EXACT, batch, first)
            found[OTHER].append(spearman(exact, self._pull(EXACT, batch, second)))
            for name in names:
                found[name].append(spearman(exact, self._pull(name, batch, first)))
        return found

    def _pull(self, mode: str, batch: Batch, exemplar: Batch) -> Tensor:
        options = MODES[mode]
        scope = None
        if "scope" in options:
            scope = Scope(self.model, self.setting.block if options["scope"] == "block" else options["scope"])
            scope.settle(self.model, batch, classification_loss)
        done = replace(virtual_forward(self.model, batch), check=False)
        rates = dict.fromkeys(in_scope(done.parameters, scope), float(self.optimizer.param_groups[0]["lr"]))
        scores = self.method.scores[batch.rows].to(done.losses.dtype)
        rest = options.get("look_ahead", 0) is None
        mode = Mode("forward")
        found = solve(done, exemplar, scores, self.method.objective, rates, mode, Softmax(), at_rest=rest)
        assert found.pull is not None
        return found.pull


def train(
    setting: Setting, mode: str, parts: Parts, seed: int, device: str, *, compiled: bool = False
) -> dict[str, Any]:
    """One training: its accuracy and TPRD on validation and test, in points; with the exact mode, the correlations."""
    torch.manual_seed(seed)
    model = setting.model().to(device)
    if setting.images and device != "cpu":
        model = model.to(memory_format=torch.channels_last)
    extra: dict[str, Any] = {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-4} if setting.images else {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **extra)
    method = made(setting, mode, model, len(parts.train))
    probe = None
    if isinstance(method, FORML) and mode == EXACT:
        probe = Probe(setting, model, method, parts, optimizer, seed)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting.epochs) if setting.images else None
    bf16 = torch.bfloat16 if setting.images and device != "cpu" else None
    started = time.perf_counter()
    fit(
        model,
        optimizer,
        method,
        parts.train,
        parts.exemplar,
        setting.epochs,
        () if probe is None else (probe,),
        scheduler=cosine,
        augment=Chain(Flip(), Shift(4)) if setting.images else None,
        options=FitOptions(setting.batch, setting.per_class, seed, drop_last=True, autocast=bf16, compile=compiled),
    )
    seconds = time.perf_counter() - started
    model.eval()
    found = {"mode": mode, "seed": seed, "seconds": round(seconds, 1)}
    for name, part in (("validation", parts.validation), ("test", parts.test)):
        right = (predict(model, part) == part.labels).double()
        rates = torch.stack([right[part.labels == c].mean() for c in range(10)])
        found[name] = {"accuracy": 100 * float(right.mean()), "tprd": 100 * float(rates.max() - rates.min())}
    if probe is not None:
        found["correlations"] = probe.found
    return found


def times(setting: Setting, parts: Parts, device: str, repeats: int) -> dict[str, dict[str, Any]]:
    """A step of each mode, in milliseconds: on a GPU replayed as a graph, on a CPU in turn, rounds of ten steps."""
    draws = ExemplarSampler(Cells.of(parts.exemplar.labels), setting.per_class, 0, device=device)
    batch, exemplar = parts.train.take(torch.arange(setting.batch, device=device)), draws.batch(parts.exemplar, 0)
    batch = Batch(batch.inputs, batch.labels, rows=torch.arange(setting.batch, device=device))
    torch.manual_seed(0)
    start = setting.model().to(device)
    if device != "cpu":
        start = start.to(memory_format=torch.channels_last)
        found = {}
        for name in (PLAIN, *MODES):
            way = Way(name, lambda model, n, name=name: made(setting, name, model, n), "graph")  # type: ignore[misc]
            got = measure(way, start, batch, exemplar, repeats=10 * repeats, bf16=setting.images)
            found[name] = {"ms": got.median_ms, "n": got.n, "refusal": got.refusal}
        return found
    steps = {}
    for name in (PLAIN, *MODES):
        model = copy.deepcopy(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        steps[name] = (made(setting, name, model, setting.batch), optimizer)
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for k in range(repeats + 1):
        for name, (method, optimizer) in steps.items():
            began = time.process_time()  # others may work on the same cores
            for _ in range(10):  # 2 and 5 divide it: every mode does its whole round
                method.step(batch, exemplar, optimizer)
            if k:
                rounds[name].append(100 * (time.process_time() - began))
    return {name: {"ms": statistics.median(r), "n": len(r), "refusal": None} for name, r in rounds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETTINGS), default="mnist")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--from-seed", type=int, default=0, help="the first one: seeds may be shared among processes")
    parser.add_argument("--rows", type=int, help="train samples, instead of the setting's")
    parser.add_argument("--compile", action="store_true", help="compile steps, which long runs on a GPU win back")
    parser.add_argument("--choice", type=int, help="the first so many seeds choose, the others report")
    parser.add_argument("--modes", nargs="*", default=[PLAIN, *MODES], help="train these alone")
    parser.add_argument("--epochs", type=int, help="instead of the setting's")
    parser.add_argument("--repeats", type=int, default=20, help="rounds of ten timed steps; 0: time nothing")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after so many")
    parser.add_argument("--quick", action="store_true", help="a shortened run, to see that it works")
    parser.add_argument("--out", type=Path, required=True, help="where finished runs are kept")
    parser.add_argument("--again", help="time the steps again, and say in the record why")
    parser.add_argument("--records", type=Path, help="write the record under this folder")
    given = parser.parse_args()
    began = time.perf_counter()
    choice = max(1, given.seeds - 5) if given.choice is None else given.choice
    if given.device == "cpu":
        torch.set_num_threads(1)
    setting = quick(SETTINGS[given.set]) if given.quick else SETTINGS[given.set]
    if given.epochs:
        setting = replace(setting, epochs=given.epochs)
    if given.rows:
        setting = replace(setting, train=given.rows)
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / f"{given.set}.json"
    state: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"runs": [], "times": {}}
    about_now = provenance(given.device)
    state["commits"] = list(dict.fromkeys([*state.get("commits", ()), about_now["commit"]]))
    pixels = read(setting, given.data)
    if given.again:
        state |= {"times": {}, "note": given.again}
    if not state["times"] and given.repeats:
        state["times"] = times(setting, drawn(setting, pixels, 0).to(given.device), given.device, given.repeats)
        kept.write_text(json.dumps(state))
    finished = {(run["mode"], run["seed"]) for run in state["runs"]}
    for seed in range(given.from_seed, given.seeds):
        parts = drawn(setting, pixels, seed).to(given.device)
        for mode in given.modes:
            if (mode, seed) in finished or time.perf_counter() - began > given.seconds:
                continue
            state["runs"].append(train(setting, mode, parts, seed, given.device, compiled=given.compile))
            kept.write_text(json.dumps(state))
            print(f"seed {seed}, {mode}: {state['runs'][-1]['seconds']} s", flush=True)  # no number of test is printed
    if not state["times"]:
        return  # a part of the runs: whoever has them all makes the record
    about = {key: value for key, value in vars(setting).items() if key not in ("model", "name")}
    record = {
        "kind": "fast modes",
        "name": f"fast_modes_{given.set}" + ("_quick" if given.quick else ""),
        "set": given.set,
        "setting": about,
        **summary(MODES, state["runs"], state["times"], choice),
        "runs": state["runs"],
        **about_now,
        "commits": state["commits"],
        "note": state.get("note", ""),
        "command": f"python benchmarks/fast_modes.py --set {given.set} --data FOLDER --device {given.device} "
        f"--seeds {given.seeds} --choice {choice} --out FOLDER",
    }
    print(table(record))
    print(f"Recommended by the rule: {record['recommended']}")
    if given.records is not None:
        path = given.records / f"{record['date'][:10]}_{record['name']}" / "record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        print(f"Record: {path}")


if __name__ == "__main__":
    main()
