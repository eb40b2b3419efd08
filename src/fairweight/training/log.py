"""The run's log: one JSON object per line, appended as it happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairweight.training.state import clear, write_atomically

FILE = "log.jsonl"


class Log:
    """Lines of a run; a resume drops those after the checkpoint, and a line that a kill cut short."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def start(self, step: int) -> None:
        """Begin at this step: keep whole lines up to it."""
        clear(self.path)
        kept = []
        if step > 0 and self.path.exists():
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    # A run that goes on has not ended, whatever it said before it was killed.
                    if entry.get("step", 0) <= step and entry.get("event") != "end":
                        kept.append(line)
                except (AttributeError, TypeError, ValueError, RecursionError):
                    continue
        write_atomically(self.path, "".join(f"{line}\n" for line in kept).encode())

    def add(self, event: str, step: int, **values: Any) -> None:
        """Append one line; NaN and infinity, which JSON lacks, become null."""
        entry = json.loads(json.dumps({"event": event, "step": step, **values}), parse_constant=lambda _: None)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
