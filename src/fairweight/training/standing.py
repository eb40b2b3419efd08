"""Where a run stands: everything that the rest of it depends on, as a tree of tensors and plain values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from fairweight.errors import BadCheckpoint
from fairweight.metagradient.model import RandomState, unwrap
from fairweight.training import state
from fairweight.training.checkpoint import match_strides

if TYPE_CHECKING:
    from fairweight.training.loop import Training


def standing(training: Training) -> dict[str, Any]:
    """Everything that the rest of the run depends on, not copied."""
    random = RandomState.now(training.device)
    assert random is not None
    mid_update = training.options.accumulate > 1 and training.step % len(training.batches) > 0
    parameters = unwrap(training.model).named_parameters()
    return {
        "step": training.step,
        "model": unwrap(training.model).state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "scheduler": None if training.scheduler is None else training.scheduler.state_dict(),
        "gradients": {name: p.grad for name, p in parameters if p.grad is not None} if mid_update else {},
        "reweighter": training.reweighter.state_dict(),
        "random": [random.cpu, random.cuda],
        "sums": training.sums.state_dict(),
        "dynamics": None if training.dynamics is None else training.dynamics.state_dict(),
        "observers": [observer.state_dict() for observer in training.observers],
        "batches": training.batches.state_dict(),
        **({} if training.ranks is None else {"random_of_ranks": _random_of_ranks(training, random)}),
        "best": training.best,
        "best_method": training.best_method,
        "history": training.history,
        "stopped": training.stopped,
        "seconds": training.seconds,
    }


def put_back(training: Training, saved: dict[str, Any]) -> None:
    """Put the run back where it stood; refuse what is not of its shape."""
    try:
        _put_back(training, saved)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        what = str(error).strip().split("\n")[0]
        raise BadCheckpoint(f"the checkpoint does not fit this run ({what}); delete it and start again.") from error


def _put_back(training: Training, saved: dict[str, Any]) -> None:
    cpu, cuda = saved["random"]
    others = saved.get("random_of_ranks", [])
    if training.ranks is not None and len(others) == training.ranks.size:
        cpu, cuda = (*others[training.ranks.rank], None)[:2]
    saved = {
        key: value if key.startswith("random") else state.move(value, training.device) for key, value in saved.items()
    }
    model = unwrap(training.model)
    model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    match_strides(training.optimizer)
    if training.scheduler is not None and saved["scheduler"] is not None:
        training.scheduler.load_state_dict(saved["scheduler"])
    for name, p in model.named_parameters():
        p.grad = saved["gradients"].get(name)
    training.reweighter.load_state_dict(saved["reweighter"])
    training.sums.load_state_dict(saved["sums"])
    if training.dynamics is not None and saved["dynamics"] is not None:
        training.dynamics.load_state_dict(saved["dynamics"])
    if len(saved["observers"]) == len(training.observers):
        for observer, kept in zip(training.observers, saved["observers"], strict=True):
            observer.load_state_dict(kept)
    training.batches.load_state_dict(saved["batches"])
    training.step, training.best, training.history = int(saved["step"]), saved["best"], saved["history"]
    training.best_method = saved.get("best_method")
    training.stopped, training.seconds = saved["stopped"], float(saved["seconds"])
    RandomState(cpu, cuda, training.device).restore()


def _random_of_ranks(training: Training, random: RandomState) -> list[list[Tensor]]:
    if training.ranks is None:
        return []
    return training.ranks.gather([random.cpu, *([] if random.cuda is None else [random.cuda])])
