"""Runs side by side in processes of their own; one that dies takes no other along."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fairweight.runs._job import DatasetMemory, Engine, Outcome, Settings, Watcher, perform
from fairweight.runs.spec import Spec


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    spec: Spec | None = None  # what it is at


class Processes(Engine):
    """Up to `jobs` worker processes, started as they are needed, each with its share of the cores and GPUs."""

    def __init__(self, settings: Settings, watcher: Watcher, jobs: int, threads: int) -> None:
        self.settings, self.watcher, self.jobs, self.threads = settings, watcher, jobs, threads
        self._context = multiprocessing.get_context("spawn")  # a forked CUDA context or thread pool would be broken
        self._workers: list[_Worker] = []

    @property
    def free(self) -> int:  # type: ignore[override]
        """Places for more runs."""
        return self.jobs - sum(worker.spec is not None for worker in self._workers)

    def submit(self, spec: Spec) -> None:
        self._workers = [worker for worker in self._workers if worker.spec is not None or worker.process.is_alive()]
        idle = next((worker for worker in self._workers if worker.spec is None), None) or self._start()
        idle.spec = spec
        idle.pipe.send(spec.to_dict())

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        settings = replace(self.settings, device=_device(self.settings.device, len(self._workers)))
        process = self._context.Process(target=_serve, args=(theirs, settings, self.threads), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def wait(self) -> list[Outcome]:
        over: list[Outcome] = []
        while not over:
            ready = wait([worker.pipe for worker in self._workers if worker.spec is not None])
            for worker in [w for w in self._workers if w.pipe in ready]:
                assert worker.spec is not None
                try:
                    message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    over.append(self._lost(worker))
                    continue
                if message[0] == "epoch":
                    self.watcher.on_epoch(*message[1:])
                else:
                    over.append(_outcome(worker.spec, message[1]))
                    worker.spec = None
        return over

    def _lost(self, worker: _Worker) -> Outcome:
        """A worker is gone: killed from outside, most likely for lack of memory."""
        assert worker.spec is not None
        worker.process.join()
        code = worker.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
        worker.pipe.close()
        self._workers.remove(worker)
        place = Path(self.settings.pool) / worker.spec.folder_name
        sentence = f"its process {how}, perhaps for lack of memory; the same command goes on from its checkpoint."
        return Outcome(worker.spec, place, error=sentence, cause="Killed")

    def close(self) -> None:
        for worker in self._workers:
            if worker.spec is None:
                worker.pipe.close()  # it reads the end of its work
            else:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []


def _device(asked: str, number: int) -> str:
    """Each worker's own GPU where there are several."""
    if asked != "cuda":
        return asked
    import torch

    return f"cuda:{number % max(1, torch.cuda.device_count())}"


def _serve(pipe: Connection, settings: Settings, threads: int) -> None:
    """A worker: takes runs until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when Ctrl-C comes
    _end_with_parent()
    logging.getLogger("fairweight").addHandler(logging.NullHandler())  # a run's log and metrics have its messages
    import torch

    torch.set_num_threads(threads)
    memory = DatasetMemory()

    def tell(fingerprint: str, epoch: int, epochs: int) -> None:
        pipe.send(("epoch", fingerprint, epoch, epochs))

    while True:
        try:
            spec = Spec.from_dict(pipe.recv())
        except EOFError:
            return
        outcome = perform(spec, settings, tell, memory)
        plain = {"reused": outcome.reused, "error": outcome.error, "cause": outcome.cause, "seconds": outcome.seconds}
        pipe.send(("over", {**plain, "folder": str(outcome.folder)}))


def _outcome(spec: Spec, plain: dict[str, Any]) -> Outcome:
    return Outcome(spec, **{**plain, "folder": Path(plain["folder"])})


def _end_with_parent() -> None:
    """Leave when the parent dies, whatever it died of: the same command, started again, must find the folder free."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
