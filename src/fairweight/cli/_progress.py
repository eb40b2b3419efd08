"""Progress over many runs: a bar on a terminal, one plain line per finished run elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.pool._job import Outcome, Watcher
from fairweight.runs.spec import Spec
from fairweight.training.callbacks import bar_on, time_left


class RunsProgress(Watcher):
    """Shows how many runs are over; a failure is a line in any case."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names  # by fingerprint; runs without a name are called by method and seed
        self.stream = sys.stderr
        self._bar: Any = None
        self._total = self._done = 0
        self._started = 0.0
        self._part: dict[str, float] = {}  # by fingerprint: how much of it is done

    def on_start(self, specs: list[Spec]) -> None:
        self._total, self._started = len(specs), time.monotonic()
        self._bar = bar_on(self.stream, "runs", max(1, self._total))

    def on_epoch(self, fingerprint: str, epoch: int, epochs: int) -> None:
        self._part[fingerprint] = epoch / epochs
        self._move(f"{self.names.get(fingerprint, '')} epoch {epoch}/{epochs}".strip())

    def on_outcome(self, outcome: Outcome) -> None:
        self._done += 1
        self._part.pop(outcome.spec.fingerprint, None)
        name = self.names.get(outcome.spec.fingerprint, f"{outcome.spec.method}, seed {outcome.spec.seed}")
        left = time_left(self._started, self._done, self._total - self._done, "; ")
        line = f"[{self._done:{len(str(self._total))}d}/{self._total}] {_describe(outcome, name)}{left}"
        if self._bar is None:
            print(line, file=self.stream, flush=True)
        elif outcome.error is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        self._move(name)

    def on_end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _move(self, note: str) -> None:
        if self._bar is not None:
            self._bar.update(0, completed=self._done + sum(self._part.values()), note=note)


def _describe(outcome: Outcome, name: str) -> str:
    if outcome.error is not None:
        return f"FAILED {name}: {outcome.error}"
    metrics = RunFolder(outcome.folder).read(METRICS)
    tprd = metrics.get("tprd")
    numbers = f"accuracy {100 * metrics['accuracy']:.2f} %" + ("" if tprd is None else f", TPRD {100 * tprd:.2f} %")
    how = "found finished" if outcome.reused else f"trained in {outcome.seconds:.0f} s"
    return f"{name}: {how}, {numbers}"
