"""Micro-batches that wait until they make one step."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from fairweight import step as _step
from fairweight.errors import BadInput
from fairweight.types import Batch, StepRecord, side_by_side


@dataclass
class Accumulation:
    """Holds micro-batches until there are enough, or until no more come."""

    count: int
    batches: list[Batch] = field(default_factory=list)
    exemplars: list[Batch] = field(default_factory=list)
    optimizer: torch.optim.Optimizer | None = None
    scale: _step.Scale = 1.0
    check: bool = True

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"accumulating({self.count}): give the number of micro-batches that make a step, 1 or more.")

    def add(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, scale: _step.Scale, check: bool
    ) -> None:
        """One more; an exemplar batch that comes with several counts once."""
        self.batches.append(batch)
        if exemplar is not None and not any(exemplar is held for held in self.exemplars):
            self.exemplars.append(exemplar)
        self.optimizer, self.scale, self.check = optimizer, scale, check

    @property
    def full(self) -> bool:
        """Whether there are enough for a step."""
        return len(self.batches) >= self.count

    def waiting(self) -> StepRecord:
        """The record of a call that only adds."""
        none = torch.zeros(0, device=self.batches[-1].labels.device)
        missing = self.count - len(self.batches)
        return StepRecord(none.sum(), none, none, mode=f"waits for {missing} more micro-batches")

    def take(self) -> tuple[list[Batch], Batch | None]:
        """The micro-batches of a step and their exemplars; what comes next is for another."""
        batches, exemplars = self.batches, self.exemplars
        self.batches, self.exemplars = [], []
        return batches, side_by_side(exemplars) if exemplars else None
