"""Observers of a run: progress, early stopping, and warnings."""

from __future__ import annotations

import logging
import math
import statistics
import sys
import time
from typing import Any, Literal, TextIO

import torch
from torch import Tensor

from fairweight.constraints import constrained, one_of, whole
from fairweight.errors import UnknownName
from fairweight.types import StepRecord

_log = logging.getLogger("fairweight")


class Observer:
    """Watches a run; subclasses write the methods they need."""

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Called when a run begins, or goes on from this step."""

    def on_step(self, step: int, record: StepRecord) -> None:
        """Called after each step; the next one may overwrite the record's tensors."""

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        """Called after each epoch, counted from 1; return a reason to stop the run, or None."""
        return None

    def on_end(self, stopped: str) -> None:
        """Called when the run is over, with why."""

    def state_dict(self) -> dict[str, Any]:
        """Return what the observer must remember over a resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""


LONG = 60.0  # seconds from which a plain line says how long the rest takes, and that a long epoch is alive


def time_left(started: float, done: int, left: int, mark: str) -> str:
    """How long what is left takes at the pace so far, after a mark: about 12 min left; nothing where that is soon."""
    passed = time.monotonic() - started
    seconds = passed / done * left if done > 0 else 0.0
    if passed + seconds <= LONG or seconds <= 0:
        return ""
    if seconds < 90:
        return f"{mark}about {seconds:.0f} s left"
    return f"{mark}about " + (f"{seconds / 60:.0f} min left" if seconds < 5_400 else f"{seconds / 3_600:.1f} h left")


def bar_on(stream: TextIO, title: str, total: int, completed: int = 0) -> Any:
    """Start a bar with one task, number 0, and a note beside it; None where the stream is no terminal."""
    if not stream.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    texts = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    columns = texts[0], BarColumn(), MofNCompleteColumn(), texts[1], TimeRemainingColumn()
    bar = Progress(*columns, console=Console(file=getattr(stream, "unfiltered", stream)), transient=True)
    bar.add_task(title, total=total, completed=completed, note="")
    bar.start()
    return bar


class Progress(Observer):
    """A bar on a terminal, one plain line per epoch elsewhere; where it takes long, with the time left."""

    def __init__(self, title: str = "training", stream: TextIO | None = None) -> None:
        self.title = title
        self.stream = stream if stream is not None else sys.stderr
        self._bar: Any = None
        self._epochs = self._steps = self._first = 0
        self._last = self._started = 0.0

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        self._epochs, self._steps, self._first = epochs, steps_per_epoch, step
        self._last = self._started = time.monotonic()
        self._bar = bar_on(self.stream, self.title, epochs * steps_per_epoch, step)

    def on_step(self, step: int, record: StepRecord) -> None:
        now = time.monotonic()
        if now - self._last > (LONG if self._bar is None else 0.1):
            self._last = now
            epoch, place = divmod(step, self._steps)
            if self._bar is not None:
                self._bar.update(0, completed=step + 1)
            else:
                self._say(f"epoch {epoch + 1}/{self._epochs}, step {place + 1:,}/{self._steps:,}", step + 1)

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        text = _epoch_text(epoch, self._epochs, summary, short=self._bar is not None)
        if self._bar is not None:
            self._bar.update(0, note=text)
        else:
            self._last = time.monotonic()
            self._say(text, epoch * self._steps)
        return None

    def _say(self, text: str, done: int) -> None:
        left = time_left(self._started, done - self._first, self._epochs * self._steps - done, ", ")
        print(f"{self.title}: {text}{left}", file=self.stream, flush=True)

    def on_end(self, stopped: str) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _epoch_text(epoch: int, epochs: int, summary: dict[str, Any], *, short: bool) -> str:
    """The numbers of an epoch; short: what fits beside a bar in a terminal of 80 columns."""
    validation, digits = summary.get("validation") or {}, 1 if short else 2
    parts = [f"epoch {epoch}/{epochs}"]
    if not short or "accuracy" not in validation:
        parts.append(f"loss {summary['loss']:.{digits + 2}f}")
    if "accuracy" in validation:
        parts.append(f"{'' if short else 'validation '}accuracy {100 * validation['accuracy']:.{digits}f}")
    if "tprd" in validation:
        parts.append(f"TPRD {100 * validation['tprd']:.{digits}f}")
    if "score_std" in summary and not short:
        parts.append(f"score std {summary['score_std']:.3f}, effective size {summary['effective_size']:.2f}")
    return ", ".join(parts)


@constrained(patience=whole(1), mode=one_of("min", "max", "auto"))
class EarlyStopping(Observer):
    """Stops when a validation metric has not improved for `patience` epochs, and keeps the best epoch's model."""

    def __init__(self, metric: str = "loss", patience: int = 10, mode: Literal["min", "max", "auto"] = "auto") -> None:
        self.metric, self.patience = metric, patience
        self.largest = mode == "max" or (mode == "auto" and "accuracy" in metric)
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.improved = False  # by the last epoch

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        validation = summary.get("validation") or {}
        if self.metric not in validation:
            raise UnknownName(
                f"EarlyStopping watches {self.metric!r} and validation gives {', '.join(validation) or 'nothing'}; "
                "pass validation= to fit, or watch another number."
            )
        value = float(validation[self.metric])
        known = not math.isnan(value)
        self.improved = known and (self.best is None or (value > self.best if self.largest else value < self.best))
        if self.improved:
            self.best, self.best_epoch = value, epoch
        elif self.best_epoch is not None and epoch - self.best_epoch >= self.patience:
            return f"validation {self.metric} has not improved since epoch {self.best_epoch}"
        return None

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch = state["best"], state["best_epoch"]


STILL = 0.01  # standard deviation of scores below which they have no effect
COLLAPSED = 0.1  # effective share of a batch below which weights have collapsed


class Watch(Observer):
    """Warns when scores have no effect, when weights collapse, and when the exemplar batch is too small."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._epochs = 0
        self._agreements: list[float] = []
        self._unread: list[Tensor] = []  # agreements that are still on the device: reading one makes it wait

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        self._epochs = epochs

    def on_step(self, step: int, record: StepRecord) -> None:
        if record.agreement is not None:
            self._unread.append(record.agreement.clone())  # a replayed step overwrites its record

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        if "score_std" in summary:
            if summary["effective_size"] < COLLAPSED:
                self.warn(
                    f"collapse: at epoch {epoch} the effective sample size is {100 * summary['effective_size']:.1f} % "
                    "of each batch; lower the score step's scale or rate.",
                )
            if epoch == self._epochs and summary["score_std"] < STILL:
                self.warn(
                    f"no effect: the scores ended at a standard deviation of {summary['score_std']:.2g}, so every "
                    "sample counted almost alike; train for more steps, or raise the score step's scale or rate.",
                )
        agreements = self.state_dict()["agreements"]
        if len(agreements) >= 8:
            mean, error = statistics.fmean(agreements), statistics.stdev(agreements) / math.sqrt(len(agreements))
            if mean + 2 * error < 0.1:  # significantly small, not merely uncertain
                self.warn(
                    f"weak signal: two halves of the exemplar batch pull in unrelated directions (cosine {mean:.3f} ± "
                    f"{error:.3f} over {len(agreements)} looks), so it is too small to learn from; raise per_cell, "
                    "give more exemplars, or have scores move the less for it (AdaptiveStep(heed=1)).",
                )
        return None

    def warn(self, sentence: str) -> None:
        """Log a warning, once for each kind: what stands before the colon."""
        if not any(w.startswith(sentence.split(":")[0]) for w in self.warnings):
            self.warnings.append(sentence)
            _log.warning(sentence)

    def state_dict(self) -> dict[str, Any]:
        if self._unread:
            self._agreements += torch.stack(self._unread).tolist()
            self._unread = []
        return {"warnings": list(self.warnings), "agreements": list(self._agreements)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.warnings, self._agreements, self._unread = list(state["warnings"]), list(state["agreements"]), []
