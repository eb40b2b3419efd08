"""Whether our numbers agree with printed ones, and whether two rows of ours differ: two t-tests, stated.

Beside a printed number: Welch's interval for the difference of the two means at 95 %, from each side's standard error
and number of runs. Where 0 lies outside it, ours is better or worse; where it lies inside, ours agrees if the
interval reaches no further than the margin, and otherwise there are too few seeds to say; so it is where our seeds
show no spread, because there is one, or because they are all alike.

Between two rows of ours: Student's t-test on the differences seed by seed (paired).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairweight.paper.published import Printed
from fairweight.runs.seed_mean import Mean

LEVEL = 0.95
TEST = (
    "Welch's 95 % interval for the difference of the means, from each side's standard error and number of runs: better "
    "or worse where it leaves out 0; agrees where it holds 0 and reaches no further than the margin (a tenth of the "
    "printed value, for accuracy half a point); otherwise, and where our seeds show no spread, too few seeds to say"
)
PAIRED_TEST = "two-sided paired t-test over seeds"
Word = Literal["agrees", "better", "worse", "too few seeds to say"]


@dataclass(frozen=True)
class Verdict:
    """How a number of ours stands to a printed one."""

    word: Word
    difference: float  # ours minus printed
    reach: float  # half of the interval's width
    margin: float
    why: str  # one clause, for people

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        reach = self.reach if math.isfinite(self.reach) else None
        return {"verdict": self.word, "difference": self.difference, "reach": reach, "margin": self.margin,
                "why": self.why}  # fmt: skip


def judge(ours: Mean, printed: Printed, *, better: Literal["lower", "higher"], margin: float | None = None) -> Verdict:
    """Ours beside printed; a printed number without an error counts as exact."""
    margin = 0.1 * abs(printed.value) if margin is None else margin
    difference = ours.value - printed.value
    if ours.n < 2 or math.isnan(ours.error) or _alike(ours):
        why = {0: "no seed was run", 1: "one seed has no spread"}.get(ours.n, "the seeds are all alike: no spread")
        return Verdict("too few seeds to say", difference, math.inf, margin, why)
    reach = _reach(ours, printed)
    if abs(difference) > reach:
        up = difference > 0
        word: Word = "better" if up == (better == "higher") else "worse"
        return Verdict(word, difference, reach, margin, f"{difference:+.2f}, beyond ±{reach:.2f}")
    if reach <= margin:
        return Verdict("agrees", difference, reach, margin, f"{difference:+.2f}, within ±{reach:.2f}")
    alone = _reach(Mean(ours.value, 0.0, 10**6), printed)
    why = f"the printed runs alone leave ±{alone:.2f}" if alone > margin else f"these seeds leave ±{reach:.2f}"
    return Verdict("too few seeds to say", difference, reach, margin, why)


def _alike(found: Mean) -> bool:
    """Whether all values are one, but for rounding, as rates of few samples often are: how far they spread is open."""
    return found.error <= 1e-9 * abs(found.value)


def _reach(ours: Mean, printed: Printed) -> float:
    """Half of Welch's interval."""
    from scipy import stats

    a, n_a = ours.error**2, ours.n
    b, n_b = (printed.error or 0.0) ** 2, printed.runs or 2
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (n_a - 1) + b**2 / (n_b - 1))
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * math.sqrt(a + b)


@dataclass(frozen=True)
class Paired:
    """How far one row of ours lies from another over the same seeds."""

    difference: Mean  # row minus the other
    p: float  # NaN where it cannot be tested

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.difference.to_dict(), "p": None if math.isnan(self.p) else self.p}


def paired(row: Mapping[int, float], other: Mapping[int, float]) -> Paired:
    """By seed; seeds that only one row has do not count."""
    apart = [row[seed] - other[seed] for seed in sorted(row.keys() & other.keys())]
    mean = Mean.of(apart)
    if mean.n < 2:
        return Paired(mean, math.nan)
    if _alike(mean):
        return Paired(mean, 1.0 if mean.value == 0 else math.nan)
    from scipy import stats

    return Paired(mean, float(2 * stats.t.sf(abs(mean.value / mean.error), mean.n - 1)))
