"""The time that a search may take, and what its trainings have taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence


class OutOfTime(Exception):
    """The time that was given does not suffice for another candidate."""


class Clock:
    """Keeps the time that was given: what judging, writing and two trainings on all rows take is set aside.

    A training is looked at before each fold, so that one that is slower than thought is given up early.
    """

    REST, NEW = 0.12, 0.03  # of the time: for judging and writing; a fold of what nothing is known of

    def __init__(self, seconds: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self.now, self.start, self.limit = now, now(), seconds
        self.took: dict[str, float] = {}  # the longest fold of each kind of training

    def check(self, kind: str, folds: int, like: str = "", times: float = 1.0) -> None:
        """Refuse to begin so many folds that would not end in time; of a kind not yet seen, some times another's."""
        if self.limit is None:
            return
        expected = self.took.get(kind, times * self.took[like] if like in self.took else self.NEW * self.limit)
        kept = 2.5 * max(self.took.values(), default=0.0) + self.REST * self.limit  # a fold leaves some rows out
        if self.now() - self.start + folds * expected + kept > self.limit:
            raise OutOfTime

    def note(self, kind: str, seconds: float) -> None:
        """Keep what a fold of that kind took."""
        self.took[kind] = max(seconds, self.took.get(kind, 0.0))

    def paced(self, folds: Sequence[int], kind: str, like: str, times: float) -> Iterator[int]:
        """The folds, one after the other while time allows; the first training of all gets two in any case.

        The first fold of a kind counts only until there is a second: what it needs is imported meanwhile.
        """
        first, new = not self.took, kind not in self.took
        for done, fold in enumerate(folds):
            try:
                if done >= 2 or not first:
                    self.check(kind, len(folds) - done, like, times)
            except OutOfTime:
                if not first:
                    raise
                return
            began = self.now()
            yield fold
            if new and done == 1:
                del self.took[kind]
            self.note(kind, self.now() - began)
