"""How far the reading of a large file is, for whoever waits: one log line now and then."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger("fairweight")
_LARGE = 20_000_000  # bytes: smaller files are read before anybody wonders
_EVERY = 2.0  # seconds between two lines


class Reading:
    """Says that a file is being read, and how much of it has been."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size, self.done = name, size, 0
        self._last = time.monotonic()
        if self.large:
            _log.info("Reading %s: %s.", self.name, _megabytes(size))

    @property
    def large(self) -> bool:
        return self.size >= _LARGE

    def step(self, size: int) -> None:
        """Count so many more bytes as read."""
        self.done = min(self.size, self.done + size)
        now = time.monotonic()
        if self.large and now - self._last >= _EVERY:
            self._last = now
            _log.info("Reading %s: %.0f %% of %s.", self.name, 100 * self.done / self.size, _megabytes(self.size))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
