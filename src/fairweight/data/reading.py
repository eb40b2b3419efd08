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
        self._last = self._started = time.monotonic()
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
            share = self.done / self.size
            left = (now - self._started) * (1 - share) / max(share, 1e-9)
            read = f"{100 * share:.0f} % of {_megabytes(self.size)}"
            _log.info("Reading %s: %s, about %.0f s left.", self.name, read, left)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
