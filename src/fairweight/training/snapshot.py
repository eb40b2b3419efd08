"""Everything that the rest of a run depends on, taken from a training and put back into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairweight.metagradient.passes import RandomState, unwrap
from fairweight.training import state

if TYPE_CHECKING:
    from fairweight.training.loop import Training


def snapshot(training: Training, step: int) -> dict[str, Any]:
    """A tree of what is there now, not copied."""
    random = RandomState.now(training.device)
    assert random is not None
    return {
        "model": unwrap(training.model).state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "scheduler": None if training.scheduler is None else training.scheduler.state_dict(),
        "gradients": _gradients(training, step),
        "reweighter": training.reweighter.state_dict(),
        "random": [random.cpu, random.cuda],
        "sums": training.sums.state_dict(),
        "dynamics": None if training.dynamics is None else training.dynamics.state_dict(),
        "observers": [observer.state_dict() for observer in training.observers],
        "weighted": None if training.weighted is None else list(training.weighted),
        "best": training.best,
        "history": training.history,
        "stopped": training.stopped,
        "seconds": training.seconds,
    }


def restore(training: Training, saved: dict[str, Any]) -> int:
    """Put a snapshot back, and return the step that it was taken at."""
    saved = {key: state.move(value, training.device) if key != "random" else value for key, value in saved.items()}
    model = unwrap(training.model)
    model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    _lay_out(training.optimizer)
    if training.scheduler is not None and saved["scheduler"] is not None:
        training.scheduler.load_state_dict(saved["scheduler"])
    for name, p in model.named_parameters():
        p.grad = (saved["gradients"] or {}).get(name)
    training.reweighter.load_state_dict(saved["reweighter"])
    training.sums.load_state_dict(saved["sums"])
    if training.dynamics is not None and saved["dynamics"] is not None:
        training.dynamics.load_state_dict(saved["dynamics"])
    if len(saved["observers"]) == len(training.observers):
        for observer, kept in zip(training.observers, saved["observers"], strict=True):
            observer.load_state_dict(kept)
    if saved["weighted"] is not None:
        training.weighted = (saved["weighted"][0], saved["weighted"][1].to(training.train.labels.device))
    training.best, training.history = saved["best"], saved["history"]
    training.stopped, training.seconds = saved["stopped"], float(saved["seconds"])
    cpu, cuda = saved["random"]
    RandomState(cpu, cuda, training.device).restore()
    return int(saved["step"])


def _gradients(training: Training, step: int) -> dict[str, Tensor] | None:
    """What has been gathered of an unfinished optimizer step."""
    if training.options.accumulate == 1 or step % len(training.sampler) == 0:
        return None
    return {name: p.grad for name, p in unwrap(training.model).named_parameters() if p.grad is not None}


def _lay_out(optimizer: torch.optim.Optimizer) -> None:
    """Hold what belongs to a parameter in the parameter's own order: a file knows none, and two orders are slow."""
    for parameter, held in optimizer.state.items():
        for name, value in held.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                held[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
