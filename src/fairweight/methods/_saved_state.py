"""Whether a saved state of FORML can be put back: checked whole, before anything is changed."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from fairweight.errors import ScoresMismatch
from fairweight.metagradient import MODES


def check_saved(state: Any, mine: dict[str, Any], num_samples: int) -> None:
    """Refuse a saved state that is not of this FORML; mine: its state now."""
    saved = state if isinstance(state, dict) else {}
    own = saved.get("own")
    count = own.numel() if isinstance(own, Tensor) else 0
    if count != num_samples:
        raise ScoresMismatch(
            f"The saved scores are of {count} samples and this FORML is for {num_samples}: resume with the training "
            "set of that run, or start a new one."
        )
    ties, step = (saved[key] if isinstance(saved.get(key), dict) else {} for key in ("ties", "score_step"))
    if not all(bool(s.isfinite().all()) for s in (own, ties.get("scores")) if isinstance(s, Tensor)):
        raise ScoresMismatch("The saved scores are not all finite numbers; take a checkpoint from before that.")
    for key, here, theirs in (
        ("form", mine["form"], saved.get("form")),
        ("scope", mine["scope"], saved.get("scope")),
        ("score_step", sorted(mine["score_step"]), sorted(map(str, step))),
        ("tie", mine.get("ties", {}).get("tie"), ties.get("tie")),
    ):
        if not isinstance(theirs, str | list | tuple | None) or here != theirs:
            raise ScoresMismatch(f"The saved scores were learned with another {key}; give the same as that run.")
    if found := _problem(saved, mine):
        raise ScoresMismatch(f"The saved state is not as FORML writes it: {found}; take another checkpoint.")


def _problem(saved: Any, mine: Any, where: str = "") -> str | None:
    """What in the saved state is not as FORML writes it, such as "visits is no number from 0"; None where all fits."""
    if isinstance(mine, dict):
        if not isinstance(saved, dict):
            return f"{where or 'it'} holds no names with values"
        for key, value in mine.items():
            there = f"{where}.{key}".lstrip(".")
            if key not in saved and key not in ("scope", "ties", "own"):
                return f"{there} is not there"
            if key in saved and (found := _problem(saved[key], value, there)):
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
