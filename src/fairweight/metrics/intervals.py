"""Numbers with their intervals, how these are made, and what sampling alone would show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.constraints import above, constrained, whole
from fairweight.errors import BadInput
from fairweight.metrics._samples import Ints
from fairweight.metrics.rates import Amounts, Floats, divide, gap, highest, lowest, mean, spread, worst

# Lower and upper limits of every rate, at a standard normal quantile z.
Limits: TypeAlias = Callable[[float], tuple[Floats, Floats]]
_NORMAL = NormalDist()
_BLOCK = 512  # rows compared with all others at a time


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


@constrained(level=above(0, 1, below=True), draws=whole(0), seed=whole(0))
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

    @property
    def z(self) -> float:
        """Standard normal quantile of a two-sided interval at this level: 1.96 at 0.95."""
        return _NORMAL.inv_cdf((1.0 + self.level) / 2.0)


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
    """Rates [D, R, T] drawn for rows of these sizes [R, T] that share one true rate [T]; NaN: no sample."""
    shape = (max(1, settings.draws), *sizes.shape)
    drawn = np.random.default_rng(settings.seed).binomial(sizes, np.nan_to_num(rate), size=shape)
    return divide(drawn, np.broadcast_to(sizes, shape))


def wilson(hits: Amounts, trials: Amounts, z: float) -> tuple[Floats, Floats]:
    """Wilson's score interval of a proportion; NaN where there were no trials."""
    n = np.where(trials > 0, trials, np.nan)
    rate = hits / n
    shrink = 1.0 + z * z / n
    centre = (rate + z * z / (2.0 * n)) / shrink
    half = z / shrink * np.sqrt(rate * (1.0 - rate) / n + z * z / (4.0 * n * n))
    return np.clip(np.minimum(centre - half, rate), 0.0, 1.0), np.clip(np.maximum(centre + half, rate), 0.0, 1.0)


def wilson_corrected(hits: Amounts, trials: Amounts, z: float) -> tuple[Floats, Floats]:
    """Wilson's interval with continuity correction (Newcombe 1998): its tails hold far out, where Wilson's do not."""
    n = np.where(trials > 0, trials, np.nan)
    rate = hits / n
    scale = 2.0 * (n + z * z)
    below = np.sqrt(np.maximum(z * z - 2.0 - 1.0 / n + 4.0 * rate * (n * (1.0 - rate) + 1.0), 0.0))
    above = np.sqrt(np.maximum(z * z + 2.0 - 1.0 / n + 4.0 * rate * (n * (1.0 - rate) - 1.0), 0.0))
    low = np.where(rate == 0.0, 0.0, (2.0 * hits + z * z - 1.0 - z * below) / scale)
    high = np.where(rate == 1.0, 1.0, (2.0 * hits + z * z + 1.0 + z * above) / scale)
    return np.clip(np.minimum(low, rate), 0.0, 1.0), np.clip(np.maximum(high, rate), 0.0, 1.0)


def mean_limits(values: Floats, low: Floats, high: Floats, *, disjoint: bool) -> tuple[Floats, Floats]:
    """Limits of the mean over the last axis, from those of its terms (Zou & Donner's recovery of variances).

    Terms from disjoint samples vary on their own; others may vary together, so that their widths add up.
    """
    known = ~np.isnan(values)
    middle = mean(values, axis=-1)

    def combined(width: Floats) -> Floats:
        width = np.where(known, width, 0.0)
        total = np.sqrt((width * width).sum(axis=-1)) if disjoint else width.sum(axis=-1)
        return divide(total, known.sum(axis=-1))

    return middle - combined(values - low), middle + combined(high - values)


@lru_cache(maxsize=4096)
def range_quantile(level: float, rows: int) -> float:
    """z at which all pairwise differences of so many independent estimates hold at once (Tukey & Kramer).

    It is the studentised range's quantile over the square root of 2: 1.96 for two rows at 0.95.
    """
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(level, rows, np.inf)) / math.sqrt(2.0)


def gap_limits(
    values: Floats, limits: Limits, level: float, *, disjoint: bool, families: int = 1
) -> tuple[float, float]:
    """Limits of the largest difference between rows over all targets, of values [R, T].

    The true gap is at least any one pair's difference, so the lower limit is the largest lower limit of a pair,
    at a level that holds for all pairs, targets and families of rates at once. It is at most the upper limit of
    whichever pair is truly the most different, so the upper limit is the largest upper limit at the plain level.
    Each pair's limits are Newcombe's (1998), made of the limits of its two rates. Equal groups thus get a lower
    limit of 0, where resampling, whose gap is never 0, would promise a gap.
    """
    compared = [t for t in range(values.shape[1]) if (~np.isnan(values[:, t])).sum() > 1]
    if not compared:
        return math.nan, math.nan
    z = _NORMAL.inv_cdf((1.0 + level) / 2.0)
    low_z, high_z = limits(z)
    lows, highs = [0.0], [0.0]
    for t in compared:
        known = ~np.isnan(values[:, t])
        value = values[known, t]  # [r]
        c = range_quantile(1.0 - (1.0 - level) / (len(compared) * families), len(value))
        low_c, high_c = (limit[known, t] for limit in limits(c))
        for start in range(0, len(value), _BLOCK):
            block = slice(start, start + _BLOCK)
            difference = value[block, None] - value  # [b, r]
            lows.append(float((difference - _both((value - low_c)[block], high_c - value, disjoint)).max()))
            rise, fall = (high_z[known, t] - value)[block], value - low_z[known, t]
            highs.append(float((difference + _both(rise, fall, disjoint)).max()))
    return max(lows), max(highs)


def _both(first: Floats, second: Floats, disjoint: bool) -> Floats:
    """Width of a difference from the widths of its two ends; rates of the same samples may move apart together."""
    return np.hypot(first[:, None], second) if disjoint else first[:, None] + second


def worst_limits(
    values: Floats, limits: Limits, far_limits: Limits, level: float, *, high_is_worse: bool
) -> tuple[float, float]:
    """Limits of the worst of all values, by the reasoning of gap_limits.

    far_limits are taken where many values must hold at once, and so each in its far tail.
    """
    cells = int((~np.isnan(values)).sum())
    if not cells:
        return math.nan, math.nan
    tail = (1.0 - level) / 2.0
    low_z, high_z = limits(_NORMAL.inv_cdf(1.0 - tail))
    low_c, high_c = (far_limits if cells > 1 else limits)(_NORMAL.inv_cdf(1.0 - tail / cells))
    if high_is_worse:
        return float(highest(low_c.ravel(), 0)), float(highest(high_z.ravel(), 0))
    return float(lowest(low_z.ravel(), 0)), float(lowest(high_c.ravel(), 0))


def quantile_limits(draws: Floats, values: Floats, z: float) -> tuple[Floats, Floats]:
    """Limits of values [...] from their bootstrap draws [D, ...], widened to hold the values themselves."""
    low, high = tails(draws, 1.0 - _NORMAL.cdf(z))
    return np.minimum(low, values), np.maximum(high, values)


def tails(draws: Floats, tail: float) -> tuple[Floats, Floats]:
    """The two quantiles of the draws [D, ...] that leave this share out at either end; NaN where there are none."""
    if not len(draws):
        draws = np.full((1, *draws.shape[1:]), np.nan)
    low, high = np.quantile(draws, (tail, 1.0 - tail), axis=0)
    return low, high


def debiased_percentiles(draws: Floats, centre: float, value: float, level: float) -> tuple[float, float]:
    """Limits of a value by the spread of its draws [D], with room for what sampling noise itself adds to it.

    Noise widens gaps: a drawn gap, with noise twice over, lies above the one seen, as that lies above the true one.
    Extrapolated to no noise at all, along its square root (the law between equal groups, where it matters most), the
    value moves by (centre - mean of the draws) / (sqrt 2 - 1), where centre is the value of what was drawn from.
    The interval reaches both from where the value is and from there, so that it never promises what noise can do.
    """
    if not len(draws) or math.isnan(value):
        return math.nan, math.nan
    low, high = tails(draws - draws.mean(), (1.0 - level) / 2.0)
    shift = (centre - float(draws.mean())) / (math.sqrt(2.0) - 1.0)
    return value + min(0.0, shift) + min(0.0, float(low)), value + max(0.0, shift) + max(0.0, float(high))
