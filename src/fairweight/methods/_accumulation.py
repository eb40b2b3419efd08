"""Micro-batches that wait until they make one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fairweight.errors import BadInput
from fairweight.types import Batch, StepRecord, side_by_side


@dataclass
class Accumulation:
    """Holds micro-batches until there are enough, or until no more come; with how the latest is to go backward."""

    count: int
    batches: list[Batch] = field(default_factory=list)
    exemplars: list[Batch] = field(default_factory=list)
    optimizer: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"accumulating({self.count}): give the number of micro-batches that make a step, 1 or more.")

    def add(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, **options: Any) -> StepRecord:
        """Add a micro-batch and return an empty record; an exemplar batch that comes again counts once."""
        self.batches.append(batch)
        if exemplar is not None and not any(exemplar is held for held in self.exemplars):
            self.exemplars.append(exemplar)
        self.optimizer, self.options = optimizer, options
        none, missing = torch.zeros(0, device=batch.labels.device), self.count - len(self.batches)
        return StepRecord(none.sum(), none, none, mode=f"waits for {missing} more micro-batches")

    def take(self) -> tuple[list[Batch], Batch | None]:
        """The micro-batches of a step and their exemplars; what comes next is for another."""
        batches, exemplars = self.batches, self.exemplars
        self.batches, self.exemplars = [], []
        return batches, side_by_side(exemplars) if exemplars else None
