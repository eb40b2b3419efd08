"""A sentence with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["act", "look", "good", "note"]
LEVELS: tuple[Level, ...] = ("act", "look", "good", "note")


@dataclass(frozen=True)
class Finding:
    """One sentence; kind says what it is about, level whether somebody should act."""

    kind: str
    level: Level
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"kind": self.kind, "level": self.level, "sentence": self.sentence, "numbers": dict(self.numbers)}
