"""What the product promises, checked on measured numbers: rules first, no number in here is fitted.

Numbers are points by seed. A difference is beyond noise where the 95 % interval of the paired t-test over seeds lies on
one side of zero. The better plain model of a set is the one of plain MLP and plain trees with the higher mean accuracy.
A peer dominates where it is at least as good in both means and better beyond noise in one of them. With fewer than
three seeds nothing is beyond noise, so nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

BUDGET = 0.3  # points of accuracy
CLOSE = 2.0  # points of balanced accuracy below plain's: a model beyond is close to constant, and never chosen
CONFIDENCE = 0.95
FEWEST = 3  # seeds that a set needs to be asked


@dataclass(frozen=True)
class Entry:
    """One method on one set: accuracy and gap by seed."""

    accuracy: Mapping[int, float]
    gap: Mapping[int, float]
    plain: bool = False
    groups: bool = False  # needs the group at prediction
    balanced: Mapping[int, float] = field(default_factory=dict)  # balanced accuracy, where it is known

    @property
    def mean_accuracy(self) -> float:
        return float(np.mean(list(self.accuracy.values())))

    @property
    def mean_gap(self) -> float:
        return float(np.mean(list(self.gap.values())))


class Difference(NamedTuple):
    """Mean of a − b over the seeds that both have, with its interval; unbounded with fewer than two seeds."""

    mean: float
    low: float
    high: float
    n: int


@dataclass
class Check:
    """One promise: whether it holds, on how many sets it could be asked, and where it fails."""

    title: str
    allowed: int = 0  # sets on which it may fail
    asked: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # by set, why

    @property
    def holds(self) -> bool | None:
        """None: no set could be asked."""
        return len(self.failed) <= self.allowed if self.asked else None

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "holds": self.holds, "asked": self.asked, "failed": self.failed}


def difference(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """Compare two methods seed by seed."""
    from scipy import stats

    apart = np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])
    n = len(apart)
    if n == 0:
        raise ValueError("the two methods share no seed")
    mean = float(apart.mean())
    if n == 1:
        return Difference(mean, -math.inf, math.inf, n)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * float(apart.std(ddof=1)) / math.sqrt(n)
    return Difference(mean, mean - half, mean + half, n)


def better_plain(entries: Mapping[str, Entry]) -> str:
    """Name the plain model with the higher mean accuracy."""
    return max((name for name, entry in entries.items() if entry.plain), key=lambda name: entries[name].mean_accuracy)


def dominates(peer: Entry, ours: Entry) -> bool:
    """Tell whether a peer is at least as good in both means and better beyond noise in one."""
    accuracy, gap = difference(peer.accuracy, ours.accuracy), difference(peer.gap, ours.gap)
    return accuracy.mean >= 0 and gap.mean <= 0 and (accuracy.low > 0 or gap.high < 0)


def halves(entry: Entry, plain: Entry, budget: float = BUDGET) -> bool:
    """Tell whether the gap is significantly smaller than plain's, at most half of it, and within the budget."""
    gap = difference(entry.gap, plain.gap)
    within = difference(entry.accuracy, plain.accuracy).mean >= -budget
    return within and gap.high < 0 and entry.mean_gap <= plain.mean_gap / 2


def close_to_constant(entry: Entry, plain: Entry) -> bool:
    """Tell whether balanced accuracy is so far below plain's that no rule of ours may choose such a model."""
    known = entry.balanced.keys() & plain.balanced.keys()
    return bool(known) and float(np.mean([plain.balanced[seed] - entry.balanced[seed] for seed in known])) > CLOSE


def halves_within_noise(entry: Entry, plain: Entry, budget: float = BUDGET) -> bool:
    """Tell whether half the gap within the budget cannot be excluded: what is asked of ours where a peer does it."""
    rest = difference(entry.gap, {seed: gap / 2 for seed, gap in plain.gap.items()})
    accuracy = difference(entry.accuracy, plain.accuracy)
    return rest.low <= 0 and accuracy.high >= -budget and entry.mean_gap < plain.mean_gap


def checks(
    sets: Mapping[str, Mapping[str, Entry]], ours: str, ours_with_groups: str | None = None, budget: float = BUDGET
) -> list[Check]:
    """Check every promise on every set that has our entry."""
    worse = Check("not worse than the better plain model in both accuracy and gap beyond noise")
    cost = Check(f"accuracy at most {budget:g} points (and noise) below the better plain model")
    half = Check("half the gap within the budget wherever a group-blind peer does it")
    sound = Check(f"the same, where that peer's balanced accuracy is at most {CLOSE:g} points below plain's")
    beaten = Check("no group-blind peer dominates it beyond noise, on more than one set", allowed=1)
    grouped = Check("with groups at prediction: no peer that needs them dominates it beyond noise")
    for name, every in sets.items():
        entries = {method: entry for method, entry in every.items() if len(entry.accuracy) >= FEWEST}
        if ours in entries and any(entry.plain for entry in entries.values()):
            entry, plain_name = entries[ours], better_plain(entries)
            plain = entries[plain_name]
            accuracy, gap = difference(entry.accuracy, plain.accuracy), difference(entry.gap, plain.gap)
            worse.asked.append(name)
            cost.asked.append(name)
            beaten.asked.append(name)
            if accuracy.high < 0 and gap.low > 0:
                worse.failed[name] = f"{accuracy.mean:+.2f} accuracy, {gap.mean:+.2f} gap beside {plain_name}"
            if accuracy.high < -budget:
                cost.failed[name] = f"{accuracy.mean:+.2f} accuracy beside {plain_name}"
            blind = {peer: e for peer, e in entries.items() if not e.groups and peer not in _own(entries, ours)}
            doing = [peer for peer, e in blind.items() if not e.plain and halves(e, plain, budget)]
            for check, by in ((half, doing), (sound, [p for p in doing if not close_to_constant(blind[p], plain)])):
                check.asked += [name] if by else []
                if by and not halves_within_noise(entry, plain, budget):
                    check.failed[name] = f"done by {', '.join(by)}; ours {gap.mean:+.2f} gap of {plain.mean_gap:.2f}"
            if by := [peer for peer, e in blind.items() if dominates(e, entry)]:
                beaten.failed[name] = f"by {', '.join(by)}"
        if ours_with_groups in entries:
            grouped.asked.append(name)
            needing = {p: e for p, e in entries.items() if e.groups and p not in _own(entries, ours)}
            if by := [peer for peer, e in needing.items() if dominates(e, entries[ours_with_groups])]:
                grouped.failed[name] = f"by {', '.join(by)}"
    return [worse, cost, half, sound, beaten, grouped]


def _own(entries: Mapping[str, Entry], ours: str) -> Sequence[str]:
    """List the entries that are versions of ours, which are no peers."""
    return [name for name in entries if name == ours or name.startswith("ours")]
