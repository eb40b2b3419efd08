"""What a whole run did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunRecord:
    """What a whole run did."""

    epochs: int  # completed
    steps: int
    stopped: str  # "finished", or why it ended before
    best_epoch: int | None = None  # chosen on validation, 1-based
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per epoch
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return dict(vars(self))
