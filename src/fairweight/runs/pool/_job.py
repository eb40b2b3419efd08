"""One run of many: its outcome, its watcher, and how it is carried out in this process."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.data import Dataset
from fairweight.errors import FairweightError, Sentence
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import run
from fairweight.runs.run_search import search_for, searched
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer
from fairweight.training.state import write_atomically

ERROR = "error.txt"  # in a run's folder: the trace of an unforeseen failure
NO_CONTEXT = ".*no current CUDA context"  # a warning of torch about its own threads, which it then mends itself
Tell = Callable[[str, int, int], None]  # fingerprint, epoch, epochs


@dataclass(frozen=True)
class Settings:
    """What all runs of a pool share; nothing that changes their results."""

    pool: str
    device: str = "cpu"
    data_dir: str | None = None
    download: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    spec: Spec
    folder: Path
    reused: bool = False  # whether it was there already
    error: str | None = None  # the sentence, if it failed
    cause: str = ""  # the error's class
    seconds: float = 0.0  # on the clock, with reading and writing

    def plain(self) -> dict[str, Any]:
        """What travels back from another process: all but the Spec and the folder, which the asker knows."""
        return {"reused": self.reused, "error": self.error, "cause": self.cause, "seconds": self.seconds}


class Watcher:
    """Follows a pool; subclasses override what they need. Calls never overlap."""

    def on_start(self, specs: list[Spec]) -> None:
        """These will be run, or are there already."""

    def on_epoch(self, fingerprint: str, epoch: int, epochs: int) -> None:
        """A run has finished an epoch."""

    def on_outcome(self, outcome: Outcome) -> None:
        """A run is over."""

    def on_end(self) -> None:
        """All runs are over."""


class _Epochs(Observer):
    """Passes on a run's progress, counted over all trainings of a search."""

    def __init__(self, fingerprint: str, tell: Tell, trainings: int = 1) -> None:
        self.fingerprint, self.tell, self.trainings = fingerprint, tell, trainings
        self._epochs, self._done = 1, 0

    def on_start(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        self._epochs = epochs

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        self.tell(self.fingerprint, self._done * self._epochs + epoch, self.trainings * self._epochs)
        return None

    def on_training(self, done: int, total: int) -> None:
        """One training of the search is over."""
        self._done = done


class DatasetMemory:
    """Keeps the last run's data for the next one: methods are compared on the same data."""

    def __init__(self) -> None:
        self._key = ""
        self._dataset: Dataset | None = None

    def get(self, spec: Spec, settings: Settings) -> Dataset:
        """Return the Spec's data; read it only if it differs from the last."""
        seed = spec.seed if spec.data_seed is None else spec.data_seed
        key = json.dumps([spec.source, spec.label, spec.group, dict(spec.data), seed, dict(spec.rows)], sort_keys=True)
        if self._dataset is None or key != self._key:
            self._dataset = None  # two large sets do not fit side by side
            self._dataset = dataset_for(spec, settings.data_dir, settings.download, beside=Path(settings.pool))
            self._key = key
        return self._dataset


def perform(spec: Spec, settings: Settings, tell: Tell, memory: DatasetMemory | None = None) -> Outcome:
    """Carry out one run here; every failure becomes part of its outcome."""
    place = Path(settings.pool) / spec.folder_name
    started = time.monotonic()
    reused, error, cause = False, None, ""
    warnings.filterwarnings("ignore", message=NO_CONTEXT)
    try:
        dataset = (memory or DatasetMemory()).get(spec, settings)  # first: missing data leaves no folder behind
        with RunFolder(place).claimed():
            observer = _Epochs(spec.fingerprint, tell, search_for(spec, dataset).total if spec.search else 1)
            options: dict[str, Any] = {"device": settings.device, "observers": [observer], "dataset": dataset}
            if spec.search:
                reused = searched(spec, place, report=observer.on_training, **options).reused
            else:
                reused = run(spec, place, **options).reused
        (place / ERROR).unlink(missing_ok=True)
    except FairweightError as found:
        error, cause = found.sentence, type(found).__name__
    except Exception as found:  # of any kind: the others go on, and the trace is kept
        write_atomically(place / ERROR, traceback.format_exc().encode(errors="replace"))
        cause = type(found).__name__
        error = Sentence(f"{cause}: {str(found).splitlines()[0] if str(found) else ''} (see {place / ERROR})")
    return Outcome(spec, place, reused, error, cause, time.monotonic() - started)
