"""A number with its interval, and how intervals are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple

from fairweight.errors import BadInput


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

    method "score": Wilson intervals for rates and, for gaps and worst groups, the range that is left by the
    intervals of all pairs of groups at once. They stay honest where a bootstrap does not: at rates of 0 and 1,
    in small groups, and for gaps between equal groups, whose resampled gap is never near 0. What is no rate
    (standard deviations, ratios, metrics of your own) is bootstrapped; a standard deviation's interval reaches 0, and a
    ratio's 1, where equal groups of the same sizes would show as much.
    method "bootstrap": the plain percentile bootstrap for everything, as in fairlearn's MetricFrame.
    draws: bootstrap draws; 0 leaves the bootstrapped intervals NaN.
    """

    level: float = 0.95
    draws: int = 1000
    seed: int = 0
    method: Literal["score", "bootstrap"] = "score"

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise BadInput(f"Intervals.level is {self.level}; give a fraction between 0 and 1, such as 0.95.")
        if self.draws < 0:
            raise BadInput(f"Intervals.draws is {self.draws}; give a number of draws, such as 1000, or 0 for none.")
        if self.method not in ("score", "bootstrap"):
            raise BadInput(f"Intervals.method is {self.method!r}; choose 'score' or 'bootstrap'.")

    @property
    def z(self) -> float:
        """Standard normal quantile of a two-sided interval at this level: 1.96 at 0.95."""
        return NormalDist().inv_cdf((1.0 + self.level) / 2.0)
