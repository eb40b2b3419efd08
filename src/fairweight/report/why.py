"""Why a sample counts what it counts, in one line; and its path as a row of bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairweight.report._words import number, percent, short
from fairweight.report.audit import Trained

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BARS = "▁▂▃▄▅▆▇█"
POINTS = 16  # of a path, at most


def levels(path: Array, points: int = POINTS) -> Array:
    """A path [epochs, P] as levels 0 to 7 [P, points or fewer], on one scale for all samples."""
    import numpy as np

    picked = path[np.unique(np.linspace(0, len(path) - 1, min(points, len(path))).round().astype(int))]  # [T, P]
    known = picked[np.isfinite(picked)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    scaled = (picked - low) / (high - low) if high > low else np.full_like(picked, 0.5)
    found: Array = np.clip((np.nan_to_num(scaled) * len(BARS)).astype(np.int64), 0, len(BARS) - 1).T
    return found


def bars(steps: Sequence[int]) -> str:
    """Levels as block characters."""
    return "".join(BARS[step] for step in steps)


class Reasons:
    """Sentences about single samples, from what training left of them."""

    def __init__(self, trained: Trained) -> None:
        self.weights = trained.weights
        by_label = trained.weights.groupby("label", observed=True)
        self._median: Any = by_label["ema_loss"].median() if "ema_loss" in trained.weights else {}

    def of(self, place: int) -> str:
        """How the objective pushed it, its loss beside its label's, how often it was forgotten, what the model says."""
        row = self.weights.iloc[place]
        parts = []
        if "ema_push" in self.weights and row["ema_push"] == row["ema_push"]:
            parts.append(f"pushed up at {int(row['pushed_up'])} of {int(row['visits'])} visits")
        if row["label"] in self._median:
            typical = self._median[row["label"]]
            parts.append(f"average loss {number(row['ema_loss'])} (median of its label {number(typical)})")
        events = int(row["forgetting_events"])
        if events and events == int(row["visits"]):
            parts.append("never learned")
        elif events:
            parts.append(f"forgotten {events} time{'s' if events > 1 else ''}")
        else:
            parts.append("never forgotten")
        if "predicted" in self.weights:
            parts.append(f"the model says {short(row['predicted'])}, and gives its label {percent(row['probability'])}")
        text = "; ".join(parts)
        return text[:1].upper() + text[1:] + "."
