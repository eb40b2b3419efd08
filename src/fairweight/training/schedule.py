"""How the learning rate moves on after an epoch."""

from __future__ import annotations

from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from fairweight.errors import BadInput
from fairweight.training.options import Scheduler


def check_schedule(scheduler: Scheduler | None, validated: bool) -> None:
    """Refuse one that watches a number where there is none to watch."""
    if isinstance(scheduler, ReduceLROnPlateau) and not validated:
        raise BadInput(
            "ReduceLROnPlateau watches a number on validation; pass validation= to fit, or a scheduler that counts "
            "epochs."
        )


def advance(scheduler: Scheduler, summary: dict[str, Any]) -> None:
    """One epoch on; ReduceLROnPlateau is given validation's loss, or its accuracy where more is better."""
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(summary["validation"]["loss" if scheduler.mode == "min" else "accuracy"])
    else:
        scheduler.step()
