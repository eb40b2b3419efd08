"""What a method's state holds, and whether a saved one of FORML can be put back: checked whole, before it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.constraints import between, whole
from fairweight.errors import ScoresMismatch
from fairweight.metagradient import MODES
from fairweight.metagradient.model import trainable, unwrap

_NUMBERS = {"steps": whole(0), "top_lr": between(0)}
_LEAST = {"visits": 0.0, "running": 0.0, "index": -1.0}  # of a tensor's entries, by name
_NOT_YET = ("running", "heard", "mode")  # None before the first step


def copied(owner: object, names: Sequence[str]) -> dict[str, Any]:
    """Return these attributes by name, without a leading underscore; tensors are cloned."""
    values = {name.lstrip("_"): getattr(owner, name) for name in names}
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in values.items()}


def put_back(owner: object, names: Sequence[str], state: Mapping[str, Any], device: torch.device) -> None:
    """Set these attributes to what `copied` gave; nothing changes where one is missing."""
    values = {name: state[name.lstrip("_")] for name in names}
    for name, value in values.items():
        setattr(owner, name, value.clone().to(device) if isinstance(value, Tensor) else value)


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters live."""
    return next(iter(trainable(unwrap(model)).values())).device


def check_saved(state: Any, current: dict[str, Any], num_samples: int) -> None:
    """Refuse a saved state that is not of this FORML; current: its own state."""
    saved = state if isinstance(state, dict) else {}
    scores = saved.get("own")
    count = scores.numel() if isinstance(scores, Tensor) else 0
    if count != num_samples:
        raise ScoresMismatch(
            f"The saved scores are of {count} samples and this FORML is for {num_samples}: resume with the training "
            "set of that run, or start a new one."
        )
    ties, step = (saved[key] if isinstance(saved.get(key), dict) else {} for key in ("ties", "score_step"))
    for key, ours, theirs in (
        ("form", current["form"], saved.get("form")),
        ("scope", current["scope"], saved.get("scope")),
        ("score_step", sorted(current["score_step"]), sorted(map(str, step))),
        ("tie", current.get("ties", {}).get("tie"), ties.get("tie")),
    ):
        if not isinstance(theirs, str | list | tuple | None) or ours != theirs:
            raise ScoresMismatch(f"The saved scores were learned with another {key}; give the same as that run.")
    problem = _problem(saved, current)
    if not problem and "ties" in current and bool((ties["index"] >= len(ties["scores"])).any()):
        problem = "ties.index numbers scores that are not there"
    if problem:
        raise ScoresMismatch(f"The saved state is not as FORML writes it: {problem}; take another checkpoint.")


def _problem(saved: Any, current: Any, where: str = "") -> str | None:
    """What in the saved state is not as FORML writes it, such as "visits is no number from 0"; None where all fits."""
    key = where.rpartition(".")[2]
    if saved is None and key in _NOT_YET:
        return None
    if isinstance(current, dict):
        if not isinstance(saved, dict):
            return f"{where} holds no names with values"
        if absent := [name for name in current if name not in saved]:
            return f"{where}.{absent[0]} is not there".lstrip(".")
        inner = (_problem(saved[name], value, f"{where}.{name}".lstrip(".")) for name, value in current.items())
        return next(filter(None, inner), None)
    if key == "mode":
        known = isinstance(saved, list | tuple) and len(saved) == 3 and saved[0] in MODES
        return None if known else f"{where} is no way to take gradients"
    if key in _NUMBERS:
        return None if _NUMBERS[key].allows(saved) else f"{where} is no number from 0"
    if isinstance(current, Tensor) or key in _NOT_YET:
        shape = current.shape if isinstance(current, Tensor) else (2,)
        if not isinstance(saved, Tensor) or saved.shape != shape or saved.is_complex():
            return f"{where} is no list of {math.prod(shape)} numbers"
        if key == "index" and saved.is_floating_point():
            return f"{where} holds no whole numbers"
        if not bool(saved.isfinite().all()) or bool((saved < _LEAST.get(key, -math.inf)).any()):
            return f"{where} is not all finite numbers" + (f" from {_LEAST[key]:g}" if key in _LEAST else "")
    return None
