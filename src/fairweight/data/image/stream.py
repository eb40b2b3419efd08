"""A set of images too large for memory: rows are read from a memory-mapped file when they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from fairweight.types import Batch, Samples


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
        import numpy as np

        # Copy-on-write: torch wants memory that it could write to, and the file must never change.
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.pixels.shape[1:])

    def take(self, index: Tensor) -> Batch:
        """The samples at these positions."""
        where = index.cpu()
        # index_select copies outside the interpreter's lock, so that threads can wait for the disk side by side.
        inputs = self.pixels.index_select(0, self.places[where])
        groups = None if self.groups is None else self.groups[where]
        shares = None if self.shares is None else self.shares[where]
        return Batch(inputs, self.labels[where], groups, where, shares)


def prefetch(samples: Samples, order: Iterable[Tensor], workers: int = 2, ahead: int = 4) -> Iterator[Batch]:
    """The batches of an epoch in order, the next few read by threads while the last one is used."""
    if isinstance(samples, Batch):
        for index in order:
            yield samples.take(index)
        return
    waiting: deque[Future[Batch]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fairweight-read")
    try:
        for index in order:
            waiting.append(pool.submit(samples.take, index))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
