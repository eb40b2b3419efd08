"""Numbers with their intervals, how intervals are made, and what sampling alone would show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics._limits import tails
from fairweight.metrics._samples import Ints
from fairweight.metrics.rates import Floats, divide, gap, spread, worst


class Estimate(NamedTuple):
    """A number with its interval and the samples behind it; NaN where it cannot be estimated."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "not estimable"
        return f"{self.value:.3f}" + ("" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]")


@dataclass(frozen=True)
class Intervals:
    """How intervals are made.

    Wilson intervals for rates and, for gaps and worst groups, the range that is left by the intervals of all pairs of
    groups at once. They stay honest where a bootstrap does not: at rates of 0 and 1, in small groups, and for gaps
    between equal groups, whose resampled gap is never near 0. What is no rate (standard deviations, ratios, metrics of
    your own) is bootstrapped; a standard deviation's interval reaches 0, and a ratio's 1, where equal groups of the
    same sizes would show as much.
    draws: bootstrap draws; 0 leaves the bootstrapped intervals NaN.
    """

    level: float = 0.95
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise BadInput(f"Intervals.level is {self.level}; give a fraction between 0 and 1, such as 0.95.")
        if self.draws < 0:
            raise BadInput(f"Intervals.draws is {self.draws}; give a number of draws, such as 1000, or 0 for none.")

    @property
    def z(self) -> float:
        """Standard normal quantile of a two-sided interval at this level: 1.96 at 0.95."""
        return NormalDist().inv_cdf((1.0 + self.level) / 2.0)


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
    drawn = equal_rows(sizes, rate, settings)
    total = int(sizes.sum())

    def estimate(values: Floats) -> Estimate:
        low, high = tails(values, (1.0 - settings.level) / 2.0)
        return Estimate(float(values.mean()), float(low), float(high), total)

    return NoiseFloor(estimate(gap(drawn)), estimate(1.0 - worst(drawn)), estimate(spread(drawn)))


def equal_rows(sizes: Ints, rate: Floats, settings: Intervals) -> Floats:
    """Rates [D, R, T] drawn for rows of these sizes [R, T] that share one true rate [T]; NaN: a label nobody has."""
    shape = (max(1, settings.draws), *sizes.shape)
    drawn = np.random.default_rng(settings.seed).binomial(sizes, np.nan_to_num(rate), size=shape)
    return divide(drawn, np.broadcast_to(sizes, shape))
