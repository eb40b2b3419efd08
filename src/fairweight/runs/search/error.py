"""JTT's two trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairweight.runs.search import Candidate, Finished, Search


class ErrorSearch(Search):
    """Trains shortly to find the errors, then by the whole schedule with them weighed up.

    The first result holds {"errors": rows that the short training got wrong}.
    """

    total = 2
    last_is_full = True
    gives = "errors"

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        return ("errors",) if candidate.number == 0 else ()

    @property
    def outcome(self) -> Finished | None:
        return self.finished[1] if len(self.finished) == 2 else None

    def trainings(self) -> Iterator[Mapping[str, Any]]:
        yield {}
        yield {"errors": list(self.finished[0].result["errors"])}
