"""The checkpoint of a run: a kill at any moment loses at most the work since the last save."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairweight.errors import BadCheckpoint, first_line
from fairweight.metagradient.model import RandomState, unwrap
from fairweight.training import state

if TYPE_CHECKING:
    from fairweight.training.loop import Training

FILE = "checkpoint.safetensors"
VERSION = 2  # of what a run keeps
AT_ONCE = 8 * 2**20  # bytes: so much is written before the training goes on
# What a run keeps: the state of its parts, and values.
_PARTS = ("optimizer", "scheduler", "reweighter", "sums", "dynamics", "batches")
_VALUES = ("step", "best", "best_method", "history", "stopped", "seconds")


class Checkpoint:
    """One file in the run's folder, replaced whole each time.

    A large save is copied and written by a thread, because a disk takes longer than a GPU's epoch may; at most one is
    under way, and `close` waits for it. A small one is on the disk when `save` returns.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], every: float = 30.0) -> None:
        self.path = folder / FILE
        self.identity, self.every = identity, every
        self.step: int | None = None  # of the last save
        self._last = time.monotonic()
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        state.clear(self.path)

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def save(self, step: int, tree: dict[str, Any]) -> None:
        copy = state.copied({"version": VERSION, "identity": self.identity, **tree, "step": step})
        self.wait()
        if copy.bytes <= AT_ONCE:
            state.write(copy, self.path)
        else:
            self._writing = self._writer.submit(state.write, copy, self.path)
        self._last, self.step = time.monotonic(), step

    def wait(self) -> None:
        """Wait until what was saved is on the disk; raise the error of a write that failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def load(self) -> dict[str, Any] | None:
        """Read what was kept, if anything; refuse what belongs to another run."""
        if not self.path.exists():
            return None
        tree: Any = state.load(self.path)
        valid = isinstance(tree, dict) and tree.get("version") == VERSION
        if not valid or not isinstance(tree.get("identity"), dict) or not isinstance(tree.get("step"), int):
            raise BadCheckpoint(
                f"{self.path} holds no run, or one of another version; delete it and start the run again."
            )
        for key, value in self.identity.items():
            if tree["identity"].get(key) != value:
                raise BadCheckpoint(
                    f"{self.path} is of a run with {key} {tree['identity'].get(key)!r}, and this one has {value!r}; "
                    "resume with the same settings, or choose another folder."
                )
        self.step = tree["step"]
        return dict(tree)

    def describe(self) -> str:
        self.wait()
        if self.step is None:
            return "no checkpoint was written"
        return f"the last good checkpoint is {self.path} at step {self.step}"


def run_state(training: Training) -> dict[str, Any]:
    """Collect everything that the rest of the run depends on; tensors are not copied."""
    random, ranks = RandomState.now(training.device), training.ranks
    drawn = [random.cpu, *([] if random.cuda is None else [random.cuda])]
    model = unwrap(training.model)
    mid_update = training.options.accumulate > 1 and training.step % len(training.batches) > 0
    parts = {name: getattr(training, name) for name in _PARTS}
    return {
        **{name: getattr(training, name) for name in _VALUES},
        **{name: None if part is None else part.state_dict() for name, part in parts.items()},
        "model": model.state_dict(),
        "gradients": {n: p.grad for n, p in model.named_parameters() if p.grad is not None} if mid_update else {},
        "random": [random.cpu, random.cuda],
        **({} if ranks is None else {"random_of_ranks": ranks.gather(drawn)}),
        "observers": [observer.state_dict() for observer in training.observers],
    }


def restore(training: Training, saved: dict[str, Any]) -> None:
    """Restore a run from its checkpoint; refuse one that does not fit."""
    try:
        _restore(training, saved)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        why = f"the checkpoint does not fit this run ({first_line(error)}); delete it and start again."
        raise BadCheckpoint(why) from error


def _restore(training: Training, saved: dict[str, Any]) -> None:
    (cpu, cuda), ranks = saved["random"], training.ranks
    of_ranks = saved.get("random_of_ranks", [])
    if ranks is not None and len(of_ranks) == ranks.size:
        cpu, cuda = (*of_ranks[ranks.rank], None)[:2]
    saved = state.move({key: value for key, value in saved.items() if not key.startswith("random")}, training.device)
    model = unwrap(training.model)
    model.load_state_dict(saved["model"])
    for name, p in model.named_parameters():
        p.grad = saved["gradients"].get(name)
    for name in _PARTS:
        part = getattr(training, name)
        if part is not None and saved[name] is not None:
            part.load_state_dict(saved[name])
    for parameter, values in training.optimizer.state.items():
        for name, value in values.items():  # a file keeps no memory order, and two orders are slow
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
    if len(saved["observers"]) == len(training.observers):
        for observer, observer_state in zip(training.observers, saved["observers"], strict=True):
            observer.load_state_dict(observer_state)
    for name in _VALUES:
        setattr(training, name, saved[name])
    RandomState(cpu, cuda, training.device).restore()
