"""One run of many: its outcome, its watcher, and what carries it out: this process, others, or a Ray cluster."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fairweight import signals
from fairweight.data import Dataset
from fairweight.errors import FairweightError, MissingDependency, Sentence, first_line, option
from fairweight.runs.run import run
from fairweight.runs.run_search import search_for
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer
from fairweight.training.state import write_atomically

ERROR = "error.txt"  # in a run's folder: the trace of an unforeseen failure
NO_CONTEXT = ".*no current CUDA context"  # a warning of torch about its own threads, which it then mends itself
Tell = Callable[[str, int, int], None]  # fingerprint, epoch, epochs
GOES_ON = "the same command goes on from its checkpoint."


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
        """Values sent back from a worker process: all but the Spec and the folder, which the parent has."""
        return {key: value for key, value in vars(self).items() if key not in ("spec", "folder")}


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

    def __init__(self, fingerprint: str, tell: Tell, trainings: int) -> None:
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


def _dataset(spec: Spec, settings: Settings, memory: dict[str, Dataset]) -> Dataset:
    """The Spec's data; the last run's is kept, because methods are compared on the same data."""
    what = [spec.source, spec.label, spec.group, dict(spec.data), spec.drawing_seed, dict(spec.rows)]
    key = json.dumps(what, sort_keys=True)
    if key not in memory:
        memory.clear()  # two large sets do not fit side by side
        memory[key] = dataset_for(spec, settings.data_dir, settings.download, beside=Path(settings.pool))
    return memory[key]


def perform(spec: Spec, settings: Settings, tell: Tell, memory: dict[str, Dataset] | None = None) -> Outcome:
    """Carry out one run here; every failure becomes part of its outcome. memory: of the data between runs."""
    place = Path(settings.pool) / spec.folder_name
    started = time.monotonic()
    reused, error, cause = False, None, ""
    warnings.filterwarnings("ignore", message=NO_CONTEXT)
    try:
        dataset = _dataset(spec, settings, {} if memory is None else memory)  # first: missing data leaves no folder
        observer = _Epochs(spec.fingerprint, tell, search_for(spec, dataset).total if spec.search else 1)
        reused = run(
            spec, place, device=settings.device, observers=[observer], dataset=dataset, report=observer.on_training
        ).reused
        (place / ERROR).unlink(missing_ok=True)
    except FairweightError as error_found:
        error, cause = error_found.sentence, type(error_found).__name__
    except Exception as error_found:  # of any kind: the others go on, and the trace is kept
        write_atomically(place / ERROR, traceback.format_exc().encode(errors="replace"))
        cause = type(error_found).__name__
        error = Sentence(f"{cause}: {first_line(error_found)} (see {place / ERROR})")
    return Outcome(spec, place, reused, error, cause, time.monotonic() - started)


class Here:
    """Carries out runs in this process, one after another, so that Ctrl-C stops them.

    Like every engine it can start a run, wait for the outcome of the next one that is over, and close, which loses
    nothing but the work since the last checkpoint.
    """

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self.settings, self.tell = settings, tell
        self._waiting: list[Spec] = []
        self._memory: dict[str, Dataset] = {}

    def start(self, spec: Spec) -> None:
        self._waiting.append(spec)

    def next_outcome(self) -> Outcome:
        return perform(self._waiting.pop(0), self.settings, self.tell, self._memory)

    def close(self) -> None:
        self._waiting.clear()


class Processes:
    """Worker processes, started as they are needed and used again, each with its share of the cores and GPUs.

    One that dies takes no other along; a pool of joblib or of the standard library breaks as a whole.
    """

    def __init__(self, settings: Settings, tell: Tell, threads: int) -> None:
        self.settings, self.tell, self.threads = settings, tell, threads
        self._context = multiprocessing.get_context("spawn")  # a forked CUDA context or thread pool would be broken
        self._workers: dict[Connection, BaseProcess] = {}  # by our end of its pipe
        self._at_work: dict[Connection, Spec] = {}

    def start(self, spec: Spec) -> None:
        idle = (pipe for pipe, process in self._workers.items() if pipe not in self._at_work and process.is_alive())
        pipe = next(idle, None) or self._new_worker()
        self._at_work[pipe] = spec
        with suppress(OSError):  # it has died just now, which next_outcome hears of
            pipe.send(spec.to_dict())

    def _new_worker(self) -> Connection:
        device = self.settings.device
        if device == "cuda":  # each worker's own GPU where there are several
            import torch

            device = f"cuda:{len(self._workers) % max(1, torch.cuda.device_count())}"
        ours, theirs = self._context.Pipe()
        arguments = (theirs, replace(self.settings, device=device), self.threads)
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        resource_tracker.ensure_running()  # starting it would let signals through
        with signals.safe_points(), signals.held_back():  # while it starts it would end with a traceback
            process.start()
            self._workers[ours] = process
        theirs.close()
        return ours

    def next_outcome(self) -> Outcome:
        while True:
            for pipe in connection.wait(list(self._at_work)):
                assert isinstance(pipe, Connection)
                try:
                    message = pipe.recv()
                except (EOFError, OSError):  # killed from outside, most likely for lack of memory
                    return self._killed(pipe)
                if not isinstance(message, tuple):
                    return _outcome(self._at_work.pop(pipe), self.settings, **message)
                self.tell(*message)

    def _killed(self, pipe: Connection) -> Outcome:
        process = self._workers[pipe]
        process.join()
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
        sentence = f"its process {how}, perhaps for lack of memory; {GOES_ON}"
        return _outcome(self._at_work.pop(pipe), self.settings, error=sentence, cause="Killed")

    def close(self) -> None:
        for process in self._workers.values():
            process.terminate()
        for process in self._workers.values():
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _outcome(spec: Spec, settings: Settings, **values: Any) -> Outcome:
    return Outcome(spec, Path(settings.pool) / spec.folder_name, **values)


def _serve(pipe: Connection, settings: Settings, threads: int) -> None:
    """Take runs until the pipe closes."""
    with suppress(EOFError, KeyboardInterrupt):  # which may come before the first run
        signals.mind(signal.SIGTERM)  # how the parent, which alone hears of Ctrl-C, says so
        threading.Thread(target=_end_with_parent, daemon=True).start()
        logging.getLogger("fairweight").addHandler(logging.NullHandler())  # a run's log and metrics have its messages
        import torch

        torch.set_num_threads(threads)
        memory: dict[str, Any] = {}
        while True:
            spec = Spec.from_dict(pipe.recv())
            pipe.send(perform(spec, settings, lambda *progress: pipe.send(progress), memory).plain())


def _end_with_parent() -> None:
    """Exit when the parent dies, so that the same command, started again, finds the folder unlocked."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


class RayTasks:
    """Hands each run to Ray and waits for it; starts a local Ray where RAY_ADDRESS names no cluster.

    The pool must lie where every machine of the cluster sees it.
    """

    def __init__(self, settings: Settings, jobs: int) -> None:
        try:
            import ray
        except ImportError:
            raise MissingDependency(f"{option('engine', 'ray')} needs Ray: pip install 'fairweight[ray]'.") from None
        self.ray: Any = ray
        self.settings = replace(settings, pool=str(Path(settings.pool).resolve()))
        self._own = not ray.is_initialized()
        if self._own:
            there = (
                {"address": "auto"} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "include_dashboard": False}
            )
            ray.init(log_to_driver=False, **there)
        gpus = 1 if settings.device.startswith("cuda") else 0
        # A lost machine or a killed worker is tried again: the run goes on from its checkpoint.
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=2)(_remote)
        self._running: dict[Any, Spec] = {}

    def start(self, spec: Spec) -> None:
        self._running[self._task.remote(spec.to_dict(), vars(self.settings))] = spec

    def next_outcome(self) -> Outcome:
        (reference, *_), _ = self.ray.wait(list(self._running))
        spec = self._running.pop(reference)
        try:
            return _outcome(spec, self.settings, **self.ray.get(reference))
        except self.ray.exceptions.RayError as error:
            lost = f"Ray lost it ({type(error).__name__}); {GOES_ON}"
            return _outcome(spec, self.settings, error=lost, cause="Killed")

    def close(self) -> None:
        for reference in self._running:
            self.ray.cancel(reference, force=True)
        if self._own:
            self.ray.shutdown()


Engine = Here | Processes | RayTasks


def _remote(spec: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return perform(Spec.from_dict(spec), Settings(**settings), lambda *_: None).plain()
