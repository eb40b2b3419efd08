"""One run of many: what is known of it, who watches it, and how it is carried out in this process."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.data import Dataset
from fairweight.errors import BadInput, FairweightError, option
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import run
from fairweight.runs.run_search import search_for, searched
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer

ERROR = "error.txt"  # in a run's folder: the trace of a failure that nobody foresaw


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
    error: str | None = None  # the sentence, where it failed
    cause: str = ""  # the error's class
    seconds: float = 0.0  # on the clock, with reading and writing


class Watcher:
    """Looks on; subclasses write what they need."""

    def on_start(self, specs: list[Spec]) -> None:
        """These will be run, or are there."""

    def on_epoch(self, fingerprint: str, epoch: int, epochs: int) -> None:
        """A run has come so far."""

    def on_outcome(self, outcome: Outcome) -> None:
        """A run is over."""

    def on_end(self) -> None:
        """All are."""


class Engine:
    """Carries out runs: `submit` while there is a free place, then `wait` for some to be over."""

    free: int

    def submit(self, spec: Spec) -> None:
        """Begin a run."""
        raise NotImplementedError

    def wait(self) -> list[Outcome]:
        """Those that are over; blocks until one is."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what is under way; nothing is lost but the work since the last checkpoint."""


class InProcess(Engine):
    """One run at a time, here."""

    def __init__(self, settings: Settings, watcher: Watcher) -> None:
        self.settings, self.watcher = settings, watcher
        self.free = 1
        self._next: Spec | None = None
        self._memory = DatasetMemory()

    def submit(self, spec: Spec) -> None:
        self._next, self.free = spec, 0

    def wait(self) -> list[Outcome]:
        assert self._next is not None
        outcome = perform(self._next, self.settings, self.watcher.on_epoch, self._memory)
        self._next, self.free = None, 1
        return [outcome]


class _Epochs(Observer):
    """Passes on how far a run is; counts over all trainings of a search."""

    def __init__(self, fingerprint: str, tell: Callable[[str, int, int], None], trainings: int = 1) -> None:
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
    """The data of the last run, for the next one: methods are compared on the same data."""

    def __init__(self) -> None:
        self._key = ""
        self._dataset: Dataset | None = None

    def get(self, spec: Spec, settings: Settings) -> Dataset:
        """The Spec's data, read anew only where it differs."""
        seed = spec.seed if spec.data_seed is None else spec.data_seed
        key = json.dumps([spec.source, spec.label, spec.group, dict(spec.data), seed, dict(spec.rows)], sort_keys=True)
        if self._dataset is None or key != self._key:
            self._dataset = None  # two large sets do not fit side by side
            self._dataset = dataset_for(spec, settings.data_dir, settings.download, beside=Path(settings.pool))
            self._key = key
        return self._dataset


def perform(
    spec: Spec, settings: Settings, tell: Callable[[str, int, int], None], memory: DatasetMemory | None = None
) -> Outcome:
    """Carry out one run and say what became of it; this is where a failure stops."""
    place = Path(settings.pool) / spec.folder_name
    started = time.monotonic()
    try:
        dataset = (memory or DatasetMemory()).get(spec, settings)  # first: what is not there leaves no folder behind
        RunFolder(place).make()
        with claimed(place):
            if spec.search:
                observer = _Epochs(spec.fingerprint, tell, search_for(spec, dataset).total)
                done = searched(spec, place, device=settings.device, observers=[observer], dataset=dataset,
                                report=observer.on_training)  # fmt: skip
            else:
                observer = _Epochs(spec.fingerprint, tell)
                done = run(spec, place, device=settings.device, observers=[observer], dataset=dataset)
    except FairweightError as error:
        return Outcome(
            spec, place, error=error.sentence, cause=type(error).__name__, seconds=time.monotonic() - started
        )
    except Exception as error:  # of any kind: the others go on, and the trace is kept for whoever mends it
        place.mkdir(parents=True, exist_ok=True)
        (place / ERROR).write_text(traceback.format_exc(), encoding="utf-8")
        sentence = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} (see {place / ERROR})"
        return Outcome(spec, place, error=sentence, cause=type(error).__name__, seconds=time.monotonic() - started)
    (place / ERROR).unlink(missing_ok=True)
    return Outcome(spec, place, reused=done.reused, seconds=time.monotonic() - started)


@contextmanager
def claimed(place: Path) -> Iterator[None]:
    """Keeps a second process out of the folder; the system lifts it when the holder ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # not a Unix: two commands on one folder are then the user's to avoid
        yield
        return
    with (place / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                f"another process is at work in {place}; wait for it to end and run this again, or choose another "
                f"{option('out')}."
            ) from None
        yield
