"""Images too large for memory: rows are read from a memory-mapped file when they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fairweight.types import Batch


@dataclass(frozen=True)
class Streamed:
    """Samples whose pixels stay in an .npy file; `take` reads only the rows that it is asked for."""

    path: Path
    places: Tensor  # [N] each sample's row in the file
    labels: Tensor  # [N]
    groups: Tensor | None = None  # [N]
    shares: Tensor | None = None  # [N]

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def pixels(self) -> Tensor:
        """All rows of the file, mapped."""  # [M, C, H, W] uint8
        # Copy-on-write: torch wants memory that it could write to, and the file must never change.
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))

    def take(self, index: Tensor) -> Batch:
        where = index.cpu()
        groups = None if self.groups is None else self.groups[where]
        shares = None if self.shares is None else self.shares[where]
        # index_select copies outside the interpreter's lock, so that threads can wait for the disk side by side.
        pixels = self.pixels.index_select(0, self.places[where])
        return Batch(pixels, self.labels[where], groups, where, shares)

    def read_ahead(self) -> ReadAhead:
        """Start the threads that read the batches of an epoch before they are asked for."""
        return ReadAhead(self)


class ReadAhead:
    """Reads batches before they are asked for, by threads that live until it is closed."""

    def __init__(self, samples: Streamed, threads: int = 2, ahead: int = 4) -> None:
        self.samples, self.ahead = samples, ahead
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fairweight-read")

    def batches(self, order: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield the batches in order, reading the next few while one is used."""
        waiting: deque[Future[Batch]] = deque()
        try:
            for index in order:
                waiting.append(self._pool.submit(self.samples.take, index.cpu()))
                if len(waiting) > self.ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
