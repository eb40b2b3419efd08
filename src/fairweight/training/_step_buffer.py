"""Records of steps, held until they are worth reading: thousands of samples at once cost less than one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from fairweight.types import StepRecord

SAMPLES = 65_536  # held at most
LOGITS = 200_000  # held at most: what stays in a cache is worked on in half the time
LOGITS_GPU = 8_000_000  # more, because reading may wait for the device
# Of steps in their order: what was given with each record (rows, or groups) [B], their numbers, their records.
Read = Callable[[Sequence[Tensor], Sequence[int], Sequence[StepRecord]], None]


class StepBuffer:
    """Hands many steps at once to `read`, when enough are held or when `flush` is called.

    fields: what `read` looks at in a record. On a GPU they are copied, because a replayed step overwrites its record.
    """

    def __init__(self, read: Read, fields: tuple[str, ...]) -> None:
        self._read, self._fields = read, fields
        self._waiting: list[tuple[Tensor, int, StepRecord]] = []
        self._max_steps = 1

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: Tensor, record: StepRecord, number: int = 0) -> None:
        """Hold one step; nothing is read back from the device unless the buffer is full."""
        cpu = record.losses.device.type == "cpu"
        if not cpu:
            values = {name: getattr(record, name) for name in self._fields}
            copies = {name: value.clone() for name, value in values.items() if value is not None}
            record = StepRecord(**{"loss": record.loss, **copies})
        if not self._waiting:
            samples = max(1, len(record.losses))
            logits = samples if record.logits is None else max(1, record.logits.numel())
            self._max_steps = min(SAMPLES // samples, (LOGITS if cpu else LOGITS_GPU) // logits)
        self._waiting.append((index.clone(), number, record))  # the caller may use its memory again
        if len(self._waiting) >= self._max_steps:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        indices, numbers, records = zip(*self._waiting, strict=True)
        self._waiting = []
        self._read(indices, numbers, records)

    def clear(self) -> None:
        self._waiting = []
