"""Where a run is kept, so that a kill at any moment loses at most the work since the last save."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fairweight.errors import BadCheckpoint
from fairweight.training import state

FILE = "checkpoint.safetensors"
AT_ONCE = 8 * 2**20  # bytes: so much is written before the training goes on


class Checkpoint:
    """One file in the run's folder, replaced whole each time.

    A large save is copied and written by a thread, because a disk takes longer than a GPU's epoch may; at most one is
    under way, and `close` waits for it. A small one is on the disk when `save` returns.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], every: float = 30.0) -> None:
        self.path = folder / FILE
        self.identity, self.every = identity, every
        self._last = time.monotonic()
        self.step: int | None = None  # of the last save
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        state.clear(self.path)

    def due(self) -> bool:
        """Whether enough time has passed since the last save."""
        return time.monotonic() - self._last >= self.every

    def save(self, step: int, tree: dict[str, Any]) -> None:
        """Keep everything that the rest of the run depends on."""
        copied = state.copied({"identity": self.identity, "step": step, **tree})
        self.wait()
        if copied.bytes <= AT_ONCE:
            state.write(copied, self.path)
        else:
            self._writing = self._writer.submit(state.write, copied, self.path)
        self._last, self.step = time.monotonic(), step

    def wait(self) -> None:
        """Until what was saved is on the disk; a write that failed is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """No more saves."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def load(self) -> dict[str, Any] | None:
        """What was kept, if anything; refused where it belongs to another run."""
        if not self.path.exists():
            return None
        tree: dict[str, Any] = state.load(self.path)
        if not isinstance(tree, dict) or not {"identity", "step"} <= tree.keys():
            raise BadCheckpoint(
                f"{self.path} holds no run, or one of another version; delete it and start the run again."
            )
        for key, value in self.identity.items():
            if tree["identity"].get(key) != value:
                raise BadCheckpoint(
                    f"{self.path} is of a run with {key} {tree['identity'].get(key)!r}, and this one has {value!r}; "
                    "resume with the same settings, or choose another folder."
                )
        self.step = int(tree["step"])
        return tree

    def describe(self) -> str:
        """Where to go back to, for a message."""
        self.wait()
        return (
            "no checkpoint was written"
            if self.step is None
            else f"the last good checkpoint is {self.path} at step {self.step}"
        )
