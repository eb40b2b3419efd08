"""Runs side by side in worker processes; one that dies takes no other along."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fairweight import signals
from fairweight.runs.pool._job import DatasetMemory, Outcome, Settings, Tell, perform
from fairweight.runs.spec import Spec

_Worker = tuple[Any, Connection]  # the process, and our end of its pipe


class Processes:
    """Worker processes, started as they are needed and used again, each with its share of the cores and GPUs.

    A pool of joblib or of the standard library breaks as a whole when one of its workers is killed.
    """

    def __init__(self, settings: Settings, tell: Tell, threads: int) -> None:
        self.settings, self.tell, self.threads = settings, tell, threads
        self._context = multiprocessing.get_context("spawn")  # a forked CUDA context or thread pool would be broken
        self._lock = threading.Lock()
        self._closed = False
        self._number = itertools.count()
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def __call__(self, spec: Spec) -> Outcome:
        """Carry out one run; called from a thread for each run under way."""
        place = Path(self.settings.pool) / spec.folder_name
        worker = process, pipe = self._take()
        try:
            pipe.send(spec.to_dict())
            while isinstance(message := pipe.recv(), tuple):
                self.tell(*message)
        except (EOFError, OSError):  # killed from outside, most likely for lack of memory
            process.join()
            code = process.exitcode
            how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
            sentence = f"its process {how}, perhaps for lack of memory; the same command goes on from its checkpoint."
            return Outcome(spec, place, error=sentence, cause="Killed")
        with self._lock:
            self._busy.remove(worker)
            self._idle.append(worker)
        return Outcome(spec, place, **message)

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._idle = [worker for worker in self._idle if worker[0].is_alive()]
            worker = self._idle.pop() if self._idle else self._start()
            self._busy.append(worker)
            return worker

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        settings = replace(self.settings, device=_device(self.settings.device, next(self._number)))
        process = self._context.Process(target=_serve, args=(theirs, settings, self.threads), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def close(self) -> None:
        """Stop what is under way; only the work since the last checkpoint is lost."""
        with self._lock:
            self._closed = True
            for _, pipe in self._idle:
                pipe.close()  # it reads the end of its work
            for process, _ in self._busy:
                process.terminate()
            for process, _ in self._idle + self._busy:
                process.join(5)
                if process.is_alive():
                    process.kill()
                    process.join()


def _device(asked: str, number: int) -> str:
    """Each worker's own GPU where there are several."""
    if asked != "cuda":
        return asked
    import torch

    return f"cuda:{number % max(1, torch.cuda.device_count())}"


def _serve(pipe: Connection, settings: Settings, threads: int) -> None:
    """Take runs until the pipe closes."""
    for number in signals.MINDED:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)  # the parent decides when Ctrl-C comes
    signals.mind(signal.SIGTERM)  # that is how it says so
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("fairweight").addHandler(logging.NullHandler())  # a run's log and metrics have its messages
    import torch

    torch.set_num_threads(threads)
    memory = DatasetMemory()
    while True:
        try:
            spec = Spec.from_dict(pipe.recv())
            pipe.send(perform(spec, settings, lambda *progress: pipe.send(progress), memory).plain())
        except EOFError:
            return
        except KeyboardInterrupt:
            return


def _end_with_parent() -> None:
    """Leave when the parent dies, whatever it died of: the same command, started again, must find the folder free."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
