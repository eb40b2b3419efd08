"""Whether probabilities mean what they say, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 10  # of as many samples each, as far as samples are not alike


def calibration_by_group(
    chances: npt.NDArray[Any], labels: npt.NDArray[Any], groups: npt.NDArray[Any] | None, names: Sequence[str] = ()
) -> dict[str, dict[str, float | int]]:
    """By group: mean probability, how often it came true, and the mean distance of the two over ten bins (ECE).

    chances: [N, K]. Of two classes the second counts, the positive one; of more the predicted one. groups: -1 is not
    known; None puts all samples together.
    """
    if chances.shape[1] == 2:
        predicted, came_true = chances[:, 1], (labels == 1).astype(float)
    else:
        predicted, came_true = chances.max(axis=1), (chances.argmax(axis=1) == labels).astype(float)
    parts = {"all": np.ones(len(labels), dtype=bool)}
    if groups is not None:
        parts = {name: groups == code for code, name in enumerate(names) if (groups == code).any()}
    return {name: _calibration(predicted[members], came_true[members]) for name, members in parts.items()}


def _calibration(predicted: npt.NDArray[Any], came_true: npt.NDArray[Any]) -> dict[str, float | int]:
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, predicted, side="right")  # equal probabilities share a bin
    error = np.abs(np.bincount(bins, predicted - came_true)).sum() / len(predicted)
    return {
        "n": len(predicted),
        "predicted": float(predicted.mean()),
        "observed": float(came_true.mean()),
        "error": float(error),
    }
