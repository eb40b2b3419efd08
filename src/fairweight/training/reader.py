"""The batches that a run asks for, read ahead where the samples can do that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

from torch import Tensor

from fairweight.types import Batch, Samples


class ReadsAhead(Protocol):
    """Reads the batches of an order before they are asked for."""

    def batches(self, order: Iterable[Tensor]) -> Iterator[Batch]:
        """The batches in order."""
        ...

    def close(self) -> None:
        """Let its threads or processes go."""
        ...


@runtime_checkable
class Slow(Protocol):
    """Samples that lie on a disk and are better read ahead."""

    def read_ahead(self) -> ReadsAhead:
        """What reads them ahead."""
        ...


class Reader:
    """The batch of a step; within an epoch, whose rows are known, the next ones are being read meanwhile."""

    def __init__(self, samples: Samples, rows: Callable[[int], Tensor], per_epoch: int) -> None:
        self.samples, self.rows, self.per_epoch = samples, rows, per_epoch
        self._slow = samples if isinstance(samples, Slow) else None  # asked once: the question costs microseconds
        self._ahead: ReadsAhead | None = None
        self._stream: Iterator[Batch] = iter(())
        self._next: int | None = None  # the step that the stream gives next

    def batch(self, step: int) -> Batch:
        """The samples of this step."""
        if self._slow is None:
            return self.samples.take(self.rows(step))
        if self._ahead is None:
            self._ahead = self._slow.read_ahead()
        if step != self._next or step % self.per_epoch == 0:
            # The rows of the next epoch may depend on what is learned in this one: no reading beyond its end.
            end = (step // self.per_epoch + 1) * self.per_epoch
            self._stream = self._ahead.batches(self.rows(s) for s in range(step, end))
        self._next = step + 1
        return next(self._stream)

    def close(self) -> None:
        """Let what reads ahead go."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead, self._next = None, None
