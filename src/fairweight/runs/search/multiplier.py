"""LB's search: one training per value of the multipliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from fairweight.constraints import above, constrained, one_of, whole
from fairweight.errors import BadInput
from fairweight.runs.search import Candidate, Finished, Search


@constrained(iterations=whole(1), rate=above(0), keep=one_of("last", "best"))
class MultiplierSearch(Search):
    """Moves λ by what each finished training violates: λ ← λ + rate · violation, from 0.

    A result holds {"violation": LabelBias.violation(samples, predictions).tolist()}. keep: the "last" training is the
    outcome, as in the paper, or the "best", by {"loss": ...} on validation.
    """

    gives, length = "multipliers", "iterations"
    holds: ClassVar = {"online": False}  # λ stays within a training

    def __init__(self, iterations: int = 15, *, rate: float = 1.0, keep: Literal["last", "best"] = "last") -> None:
        super().__init__()
        self.iterations = self.total = iterations
        self.rate, self.keep = rate, keep

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        return ("violation",) if self.keep == "last" else ("violation", "loss")

    @property
    def outcome(self) -> Finished | None:
        return self.best if self.keep == "best" else self.finished[-1] if self.finished else None

    def trainings(self) -> Iterator[Mapping[str, Any]]:
        yield {"multipliers": None}
        for _ in range(self.iterations - 1):
            last = self.finished[-1]
            violation = np.array(last.result["violation"])
            before = last.candidate.options["multipliers"]
            if before is not None and np.shape(before) != violation.shape:
                raise BadInput("The violation changed its shape between trainings; use the same labels and groups.")
            yield {"multipliers": (np.array(before or 0.0) + self.rate * violation).tolist()}
