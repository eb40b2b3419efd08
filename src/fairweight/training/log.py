"""The run's log: one JSON object per line, appended as it happens."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from fairweight.training.state import write_atomically

FILE = "log.jsonl"


class Log:
    """Lines of a run; a resume drops those after the checkpoint, and a line that a kill cut short."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def start(self, step: int) -> None:
        """Begin at this step: keep whole lines up to it."""
        kept = []
        if step > 0 and self.path.exists():
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                # A run that goes on has not ended, whatever it said before it was killed.
                if isinstance(entry, dict) and entry.get("step", 0) <= step and entry.get("event") != "end":
                    kept.append(line)
        write_atomically(self.path, "".join(f"{line}\n" for line in kept).encode())

    def add(self, event: str, step: int, **values: Any) -> None:
        """Append one line."""
        line = json.dumps({"event": event, "step": step, **_strict(values)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _strict(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by null."""
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
