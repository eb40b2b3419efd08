"""Whether a saved state of FORML can be put back: checked whole, before anything is changed."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from fairweight.metagradient import MODES


def state_problem(saved: Any, mine: Any, where: str = "") -> str | None:
    """What in the saved state is not as FORML writes it, such as "visits is no number from 0"; None where all fits."""
    if isinstance(mine, dict):
        if not isinstance(saved, dict):
            return f"{where or 'it'} holds no names with values"
        for key, value in mine.items():
            there = f"{where}.{key}".lstrip(".")
            if key not in saved and key not in ("scope", "ties", "own"):
                return f"{there} is not there"
            if key in saved and (found := state_problem(saved[key], value, there)):
                return found
        if "index" in mine and bool((saved["index"] >= len(mine["scores"])).any()):
            return f"{where}.index numbers scores that are not there"
        return None
    key = where.rpartition(".")[2]
    if key in ("running", "heard", "mode") and saved is None:
        return None
    if key == "mode":
        known = isinstance(saved, list | tuple) and len(saved) == 3 and saved[0] in MODES
        return None if known else f"{where} is no way to take gradients"
    if key in ("top_lr", "steps"):
        number = isinstance(saved, int | float) and not isinstance(saved, bool) and math.isfinite(saved) and saved >= 0
        return None if number and (key == "top_lr" or saved == int(saved)) else f"{where} is no number from 0"
    if key in ("own", "visits", "running", "heard", "scores", "index"):
        shape = mine.shape if isinstance(mine, Tensor) else (2,)
        sized = isinstance(saved, Tensor) and (saved.shape == shape or (key == "own" and saved.ndim == 1))
        if not sized or saved.is_complex():
            return f"{where} is no list of {math.prod(shape)} numbers"
        if key != "own" and not bool(saved.isfinite().all()):
            return f"{where} holds what is no number"
        if key in ("visits", "running") and bool((saved < 0).any()):
            return f"{where} is no number from 0"
        if key == "index" and (saved.is_floating_point() or bool((saved < -1).any())):
            return f"{where} numbers no shared scores"
    return None
