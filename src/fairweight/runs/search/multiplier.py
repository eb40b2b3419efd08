"""LB's search: one training per value of the multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from fairweight.errors import BadInput, UnknownName
from fairweight.runs.search import Candidate, Finished, Search, best

Table = list[list[float]]


class MultiplierSearch(Search):
    """Moves λ by what each finished training violates: λ ← λ + rate · violation, from 0.

    A result holds {"violation": LabelBias.violation(samples, predictions).tolist()}. keep: the "last" training is the
    outcome, as in the paper, or the "best", by {"loss": ...} on validation.
    """

    gives, length = "multipliers", "iterations"
    holds: ClassVar = {"online": False}  # λ stays within a training

    def __init__(self, iterations: int = 15, *, rate: float = 1.0, keep: Literal["last", "best"] = "last") -> None:
        super().__init__()
        if iterations < 1 or not rate > 0:
            raise BadInput(f"MultiplierSearch(iterations={iterations}, rate={rate}): both must be positive.")
        if keep not in ("last", "best"):
            raise UnknownName(f"MultiplierSearch(keep={keep!r}): choose 'last' or 'best'.")
        self.iterations, self.rate, self.keep = iterations, rate, keep
        self.total = iterations

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        return ("violation",) if self.keep == "last" else ("violation", "loss")

    @property
    def outcome(self) -> Finished | None:
        done = self.finished
        if self.keep == "best":
            return best(done)
        return done[-1] if done else None

    def propose(self, finished: Sequence[Finished]) -> list[Mapping[str, Any]]:
        if len(finished) >= self.iterations:
            return []
        if not finished:
            return [{"multipliers": None}]
        violation: Table = finished[-1].result["violation"]
        before: Table | None = finished[-1].candidate.options["multipliers"]
        start = before or [[0.0] * len(line) for line in violation]
        if [len(line) for line in start] != [len(line) for line in violation]:
            raise BadInput("The violation changed its shape between trainings; use the same labels and groups.")
        moved = [
            [value + self.rate * by for value, by in zip(line, change, strict=True)]
            for line, change in zip(start, violation, strict=True)
        ]
        return [{"multipliers": moved}]
