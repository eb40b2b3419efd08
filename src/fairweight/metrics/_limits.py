"""Confidence limits of rates, of the gap between the most different of them, and of the worst of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from fairweight.metrics.rates import Amounts, Floats, divide, highest, lowest, mean

# Lower and upper limits of every rate, at a standard normal quantile z.
Limits: TypeAlias = Callable[[float], tuple[Floats, Floats]]
_NORMAL = NormalDist()
_BLOCK = 512  # rows compared with all others at a time


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
    from scipy.special import ndtr

    x = np.linspace(-8.5, 8.5, 1201)
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    low, high = 0.0, 40.0
    for _ in range(50):
        q = (low + high) / 2.0
        inside = rows * float((density * (ndtr(x) - ndtr(x - q)) ** (rows - 1)).sum()) * float(x[1] - x[0])
        low, high = (q, high) if inside < level else (low, q)
    return (low + high) / 2.0 / math.sqrt(2.0)


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
            apart = value[block, None] - value  # [b, r]
            lows.append(float((apart - _both((value - low_c)[block], high_c - value, disjoint)).max()))
            rise, fall = (high_z[known, t] - value)[block], value - low_z[known, t]
            highs.append(float((apart + _both(rise, fall, disjoint)).max()))
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
