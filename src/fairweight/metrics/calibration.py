"""Whether probabilities mean what they say, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 10  # with equally many samples each, ties aside


def calibration_by_group(
    chances: npt.NDArray[Any], labels: npt.NDArray[Any], groups: npt.NDArray[Any] | None, names: Sequence[str] = ()
) -> dict[str, dict[str, float | int]]:
    """By group: mean probability, how often it came true, and the mean distance of the two over ten bins (ECE).

    chances: [N, K]. Of two classes the second counts, the positive one; of more the predicted one. groups: -1 is not
    known; None puts all samples together.
    """
    if chances.shape[1] == 2:
        chance, observed = chances[:, 1], (labels == 1).astype(float)
    else:
        chance, observed = chances.max(axis=1), (chances.argmax(axis=1) == labels).astype(float)
    parts = {"all": np.ones(len(labels), dtype=bool)}
    if groups is not None:
        parts = {name: groups == code for code, name in enumerate(names) if (groups == code).any()}
    return {name: _calibration(chance[members], observed[members]) for name, members in parts.items()}


def _calibration(chance: npt.NDArray[Any], observed: npt.NDArray[Any]) -> dict[str, float | int]:
    edges = np.unique(np.quantile(chance, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, chance, side="right")  # equal probabilities share a bin
    error = np.abs(np.bincount(bins, chance - observed)).sum() / len(chance)
    means = {"predicted": float(chance.mean()), "observed": float(observed.mean())}
    return {"n": len(chance), **means, "error": float(error)}
