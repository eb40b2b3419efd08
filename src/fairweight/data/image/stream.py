"""A set of images too large for memory: rows are read from a memory-mapped file when they are asked for."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput, UnreadableFile
from fairweight.types import Batch, Samples


@dataclass(frozen=True)
class Streamed:
    """Samples whose pixels stay in an .npy file; `take` reads only the rows that it is asked for."""

    path: Path
    places: Tensor  # [N] each sample's row in the file
    labels: Tensor  # [N]
    groups: Tensor | None = None  # [N]
    shares: Tensor | None = None  # [N]
    reader_processes: int = 0  # that read ahead in training; 0: two threads

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def pixels(self) -> Tensor:
        """All rows of the file, mapped."""  # [M, C, H, W] uint8
        return mapped(self.path)

    def take(self, index: Tensor) -> Batch:
        """The samples at these positions."""
        where = index.cpu()
        return self._with(read_rows(self.pixels, self.places[where]), where)

    def read_ahead(self) -> ReadAhead:
        """What reads the batches of an epoch before they are asked for."""
        return ReadAhead(self, workers=self.reader_processes or 2, processes=self.reader_processes > 0)

    def _with(self, pixels: Tensor, where: Tensor) -> Batch:
        groups = None if self.groups is None else self.groups[where]
        shares = None if self.shares is None else self.shares[where]
        return Batch(pixels, self.labels[where], groups, where, shares)


def mapped(path: Path) -> Tensor:
    """All rows of an .npy file, mapped."""  # [M, C, H, W] uint8
    import numpy as np

    # Copy-on-write: torch wants memory that it could write to, and the file must never change.
    return torch.from_numpy(np.load(path, mmap_mode="c"))


def read_rows(pixels: Tensor, places: Tensor) -> Tensor:
    """Some rows, in memory."""  # [B, C, H, W]
    # index_select copies outside the interpreter's lock, so that threads can wait for the disk side by side.
    return pixels.index_select(0, places)


class ReadAhead:
    """Reads batches before they are asked for, by threads or by processes that live until it is closed.

    Threads read as much side by side as processes do, because copying rows out of a mapped file takes no lock, and
    their batches need not travel: they are the default. Processes keep the reading away from a busy interpreter.
    """

    def __init__(self, samples: Streamed, workers: int = 2, ahead: int = 4, *, processes: bool = False) -> None:
        if workers < 1 or ahead < 1:
            raise BadInput(f"workers={workers}, ahead={ahead}: each must be at least 1.")
        self.samples, self.ahead, self.processes = samples, max(ahead, workers), processes
        self._pool: Executor
        if processes:
            # Spawned: a copy of a process with threads or a GPU in it may hang.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, initializer=_open, initargs=(str(samples.path),))
        else:
            self._pool = ThreadPoolExecutor(workers, thread_name_prefix="fairweight-read")

    def batches(self, order: Iterable[Tensor]) -> Iterator[Batch]:
        """The batches in order, the next few being read while the last one is used."""
        waiting: deque[tuple[Tensor, Future[Any]]] = deque()
        try:
            for index in order:
                where = index.cpu()
                waiting.append((where, self._asked(where)))
                if len(waiting) > self.ahead:
                    yield self._read(*waiting.popleft())
            while waiting:
                yield self._read(*waiting.popleft())
        finally:
            for _, future in waiting:
                future.cancel()

    def close(self) -> None:
        """Let the readers go."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _asked(self, where: Tensor) -> Future[Any]:
        places = self.samples.places[where]
        if self.processes:
            return self._pool.submit(_read_opened, places.tolist())
        return self._pool.submit(read_rows, self.samples.pixels, places)

    def _read(self, where: Tensor, future: Future[Any]) -> Batch:
        try:
            found = future.result()
        except BrokenProcessPool as error:
            raise UnreadableFile(
                "a process that reads images was stopped, perhaps for want of memory; run the same command again, "
                "which goes on from the last checkpoint, with fewer of them."
            ) from error
        return self.samples._with(found if isinstance(found, Tensor) else torch.from_numpy(found), where)


_opened: list[Tensor] = []  # in a reading process: the file that it reads from


def _open(path: str) -> None:
    _opened.append(mapped(Path(path)))


def _read_opened(places: list[int]) -> Any:
    return read_rows(_opened[0], torch.tensor(places, dtype=torch.int64)).numpy()


def prefetch(
    samples: Samples, order: Iterable[Tensor], workers: int = 2, ahead: int = 4, *, processes: bool = False
) -> Iterator[Batch]:
    """The batches of an epoch in order, read ahead where they stream."""
    if not isinstance(samples, Streamed):
        for index in order:
            yield samples.take(index)
        return
    reader = ReadAhead(samples, workers, ahead, processes=processes)
    try:
        yield from reader.batches(order)
    finally:
        reader.close()
