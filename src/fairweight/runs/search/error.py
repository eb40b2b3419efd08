"""JTT's two trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        done = self.finished
        return done[1] if len(done) == 2 else None

    def propose(self, finished: Sequence[Finished]) -> list[Mapping[str, Any]]:
        if not finished:
            return [{}]
        return [{"errors": list(finished[0].result["errors"])}] if len(finished) == 1 else []
