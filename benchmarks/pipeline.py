"""The data pipeline of `fit`: whether the device ever waits for the host, and what augmentation is of a step.

ResNet-18 and a set of CIFAR-10's size in the device's memory, trained as runs/run.py does it. Within the first
epoch of a fit, stretches of steps that run freely take turns with stretches in which the device is held until the host
has begun them: the device's time for a step is then its work alone, and what a free step takes beyond that is waiting.

python benchmarks/pipeline.py --device cuda --records records
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from pipeline_clock import Clock, clock_of, spread, timed
from pipeline_record import words
from torch import nn

from fairweight import Batch, Dynamics, FitOptions, ResNet18, StepRecord, fit
from fairweight.data import Chain, Flip, Normalize, Shift
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.methods import Reweighter
from fairweight.paper.records import keep
from fairweight.runs.build import laid_out, method_from, on_gpu
from fairweight.runs.provenance import provenance
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler, generator
from fairweight.training.callbacks import Observer

# Without the look at agreement, one step in a hundred, as `fairweight bench` measures it.
METHODS: dict[str, dict[str, Any]] = {"uniform": {}, "forml": {"agreement_every": 0}}
FITS = {"neither": (False, False), "augmentation": (True, False), "augmentation and histories": (True, True)}
SEED = 0
AHEAD = 8  # steps of a free stretch in which the host is timed


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    samples: int = 50_000
    exemplars: int = 5_000
    classes: int = 10
    pixels: int = 32
    width: int = 64
    batch: int = 128
    per_cell: int = 3
    warm: int = 32  # steps of a fit before the first stretch; stretches are whole 32s, as the epoch's sums are
    free: int = 64
    held: int = 32
    at_once: int = 32
    repeats: int = 30
    hold_ms: float = 100.0


TINY = Setting(360, 60, 10, 8, 4, 32, 1, warm=2, free=4, held=2, at_once=2, repeats=2)


@dataclass
class Stretch:
    """Some steps of a fit, and when the host had begun each and the device had done it."""

    held: bool
    steps: int
    began: float  # s
    marks: list[Any]  # before the first step and after each
    hosts: list[float] = field(default_factory=list)  # s
    dry: int = 0  # steps that the host had not wholly begun when the device was done with the one before
    wall: float = 0.0  # s


class Stretches(Observer):
    """Stretches of the first epoch, free and held by turns; later epochs are left alone and timed as a whole."""

    def __init__(self, clock: Clock, setting: Setting) -> None:
        self.clock, self.setting = clock, setting
        self.done: list[Stretch] = []
        self.epoch_ends: list[float] = []
        self._steps = 0
        self._now: Stretch | None = None

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        self._steps = steps_per_epoch - 1  # the last batch may be smaller

    def on_step(self, step: int, record: StepRecord) -> None:
        now = self._now
        if now is not None:
            begun = self.clock.now()
            if now.held or now.hosts:  # a free stretch begins with an empty queue
                now.dry += self.clock.passed(now.marks[-1])
            now.hosts.append(begun)
            now.marks.append(self.clock.mark())
            if len(now.hosts) == now.steps:
                self.clock.wait()
                now.wall = self.clock.now() - now.began
                self.done.append(now)
                self._now = None
        if self._now is None and step + 1 >= self.setting.warm:
            held = len(self.done) % 2 == 1
            length = self.setting.held if held else self.setting.free
            if step + 1 + length <= self._steps:
                self.clock.wait()
                if held:
                    self.clock.hold(self.setting.hold_ms)
                self._now = Stretch(held, length, self.clock.now(), [self.clock.mark()])

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        self.clock.wait()
        self.epoch_ends.append(self.clock.now())
        return None

    def found(self) -> dict[str, Any]:
        """Milliseconds of a step: on the wall, between two steps on the device, its work alone, and the host's."""
        free = [s for s in self.done if not s.held]
        held = [s for s in self.done if s.held and s.dry == 0]

        def gaps(stretch: Stretch, first: int) -> list[float]:
            marks = stretch.marks[first:]
            return [self.clock.between(a, b) for a, b in itertools.pairwise(marks)]

        paces = [gap for s in free for gap in gaps(s, 1)]
        work = [gap for s in held for gap in gaps(s, 0)]
        begun = [[s.began, *s.hosts][: AHEAD + 1] for s in free]  # before a full queue can hold the host up
        pace, alone = spread(paces), spread(work) if work else None  # None: in no held stretch was the host ahead
        return {
            "wall_ms": spread([1e3 * s.wall / s.steps for s in free]),
            "pace_ms": pace,
            "device_ms": alone,
            "host_ms": spread([1e3 * (b - a) for times in begun for a, b in itertools.pairwise(times)]),
            "waits": None if alone is None else 1 - alone["mean"] / pace["mean"],
            "dry": sum(s.dry for s in free),
            "watched": len(paces),
            "held_stretches": len(held),
        }


class Bench:
    """The set and the network, and what is measured of them."""

    def __init__(self, setting: Setting, device: str) -> None:
        self.setting, self.device, self.clock = setting, device, clock_of(device)
        self.cast = torch.bfloat16 if on_gpu(device) else None
        s, stream = setting, torch.Generator().manual_seed(SEED)

        def drawn(count: int) -> Batch:
            images = torch.randint(0, 256, (count, 3, s.pixels, s.pixels), dtype=torch.uint8, generator=stream)
            return Batch(images, torch.arange(count) % s.classes).to(device)

        self.train, self.exemplar = drawn(s.samples), drawn(s.exemplars)
        self.sampler = TrainSampler(s.samples, s.batch, SEED, device=self.train.labels.device)
        cells = Cells.of(self.exemplar.labels, None)
        self.draws = ExemplarSampler(cells, s.per_cell, SEED, device=self.exemplar.labels.device)
        self.augment = Chain(Flip(), Shift(4))

    def method(self, name: str) -> tuple[nn.Module, torch.optim.Optimizer, Reweighter]:
        """As runs/run.py makes them, compiled on a GPU."""
        torch.manual_seed(SEED)
        body = ResNet18(self.setting.classes, "small", width=self.setting.width)
        model = laid_out(nn.Sequential(Normalize((0.5,) * 3, (0.25,) * 3), body), self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9, nesterov=True, weight_decay=5e-4)
        reweighter = method_from(name, METHODS[name], model, self.setting.samples)
        if on_gpu(self.device):
            reweighter.compile()  # here rather than in every fit, which would compile it again
        return model, optimizer, reweighter

    def parts(self) -> dict[str, Any]:
        """What comes before a step."""
        batch = self._batch(0)

        def augmented(step: int) -> None:
            self.augment(batch.inputs, generator("augment", SEED, step))

        works = {
            "draw the batch": self._batch,
            "draw the exemplars": lambda step: self.draws.batch(self.exemplar, step).to(self.device),
            "augmentation": augmented,
        }
        s = self.setting
        return {name: timed(self.clock, work, s.at_once, s.repeats, s.hold_ms / 4) for name, work in works.items()}

    def _batch(self, step: int) -> Batch:
        within = step % (len(self.sampler) - 1)  # of one epoch, without its smaller last batch
        return self.train.take(self.sampler.rows(within)).to(self.device)

    def step(self, reweighter: Reweighter, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The step alone, on the same batch again and again: replayed on a GPU."""
        batch, exemplar = self._batch(0), self.draws.batch(self.exemplar, 0).to(self.device)
        exemplar_or_none = exemplar if "exemplar" in reweighter.needs else None
        captured = CapturedStep(reweighter, optimizer) if on_gpu(self.device) else None

        def one(place: int) -> None:
            with torch.autocast(self.device.split(":")[0], dtype=self.cast, enabled=self.cast is not None):
                if captured is None:
                    reweighter.step(batch, exemplar_or_none, optimizer)
                else:
                    captured(batch, exemplar_or_none)

        started = time.perf_counter()
        for place in range(6 if captured else 1):
            one(place)
        self.clock.wait()
        warm_up = time.perf_counter() - started
        s = self.setting
        found = timed(self.clock, one, max(2, s.at_once // 4), max(3, s.repeats // 2), s.hold_ms / 2, each=True)
        refusal = None if captured is None else captured.refusal
        return {**found, "warm_up_s": warm_up, "captured": captured is not None and refusal is None, "refusal": refusal}

    def fits(self, model: nn.Module, optimizer: torch.optim.Optimizer, reweighter: Reweighter) -> dict[str, Any]:
        """`fit` with and without augmentation and histories; of the last one a second epoch, left alone."""
        s, rows = self.setting, {}
        options = FitOptions(batch_size=s.batch, per_cell=s.per_cell, seed=SEED, autocast=self.cast)
        for name, (augmented, histories) in FITS.items():
            watch = Stretches(self.clock, s)
            fit(
                model,
                optimizer,
                reweighter,
                self.train,
                self.exemplar,
                2 if histories else 1,
                [watch],
                augment=self.augment if augmented else None,
                dynamics=Dynamics(s.samples, self.device) if histories else None,
                options=options,
            )
            rows[name] = watch.found()
            if histories:
                first, second = watch.epoch_ends
                rows[name]["epoch_ms"] = 1e3 * (second - first) / len(self.sampler)
        return rows


def measure(setting: Setting, device: str, methods: list[str]) -> Iterator[dict[str, Any]]:
    """All of it, as far as it has come after each method: what was measured outlives what fails later."""
    started = time.perf_counter()
    bench = Bench(setting, device)
    found: dict[str, Any] = {"parts": bench.parts(), "methods": {}}
    for name in methods:
        model, optimizer, reweighter = bench.method(name)
        step = bench.step(reweighter, optimizer)
        print(f"{name}: a step {step['device_ms']['median']:.3f} ms, after {step['warm_up_s']:.1f} s", flush=True)
        found["methods"][name] = {"step": step, "fits": bench.fits(model, optimizer, reweighter)}
        yield {**found, "seconds": round(time.perf_counter() - started, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--tiny", action="store_true", help="a few seconds on a processor: whether it runs, no numbers")
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    setting = TINY if asked.tiny else Setting()
    about = provenance(asked.device)
    given = [word for word in sys.argv[1:] if word not in ("--records", asked.records)]
    about["command"] = " ".join(["python benchmarks/pipeline.py", *given])
    about |= {"kind": "pipeline", "name": "pipeline_tiny" if asked.tiny else "pipeline", "setting": asdict(setting)}
    about |= {"gpu": on_gpu(asked.device), "precision": "bfloat16 autocast" if on_gpu(asked.device) else "float32"}
    for found in measure(setting, asked.device, asked.methods):
        record = {**about, **found}
        path = keep(record, asked.records)
        print(f"Record after {found['seconds']} s: {path}", flush=True)
    print("\n".join(words(record)))


if __name__ == "__main__":
    main()
