"""The sampling floor: what groups that are truly equal would show, because each has only so many samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics._rates import divide, gap, spread, worst
from fairweight.metrics._tally import Floats
from fairweight.metrics.estimate import Estimate, Intervals


class NoiseFloor(NamedTuple):
    """Mean and range (at the interval's level) of what equal groups of these sizes would show."""

    tprd: Estimate
    max_fnr: Estimate
    tpr_std: Estimate


def noise_floor(
    n: Sequence[int] | Sequence[Sequence[int]] | npt.NDArray[Any],
    tpr: float | Sequence[float] | npt.NDArray[Any],
    *,
    intervals: Intervals | None = None,
) -> NoiseFloor:
    """Simulate groups of n samples each [R] (or [R, T], for T labels) that share one true positive rate (per label).

    A hundred classes of 100 test images at 77.8 % each would show a TPRD of 0.21 and a maxFNR of 0.33.
    """
    sizes = np.asarray(n, dtype=np.int64)
    sizes = sizes[:, None] if sizes.ndim == 1 else sizes  # [R, T]
    rate = np.broadcast_to(np.asarray(tpr, dtype=np.float64), sizes.shape[-1:])  # [T]
    if sizes.ndim != 2 or sizes.size == 0 or (sizes < 0).any():
        raise BadInput("noise_floor needs the number of samples of every group; give a list of counts.")
    if ((rate < 0) | (rate > 1)).any():
        raise BadInput(f"noise_floor got a rate of {tpr}; give a fraction between 0 and 1.")
    settings = intervals or Intervals()
    unknown = np.isnan(rate)  # a label that nobody has: its groups have no samples either
    rng = np.random.default_rng(settings.seed)
    draws = max(1, settings.draws)
    hits = rng.binomial(sizes, np.where(unknown, 0.0, rate), size=(draws, *sizes.shape))  # [D, R, T]
    drawn = divide(hits, np.broadcast_to(sizes, hits.shape))
    total = int(sizes.sum())
    return NoiseFloor(
        _estimate(gap(drawn), settings, total),
        _estimate(worst(1.0 - drawn, high_is_worse=True), settings, total),
        _estimate(spread(drawn), settings, total),
    )


def _estimate(drawn: Floats, settings: Intervals, n: int) -> Estimate:
    tail = (1.0 - settings.level) / 2.0
    low, high = np.quantile(drawn, (tail, 1.0 - tail))
    return Estimate(float(drawn.mean()), float(low), float(high), n)
