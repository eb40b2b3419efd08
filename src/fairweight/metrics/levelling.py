"""Levelling down: whether a gap is smaller only because those who were better off lost, while nobody gained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_LOSS = 0.01  # of a rate
GAIN = 0.1  # of the largest loss: a smaller gain does not count
LOW_IS_GOOD = "false positive rate"


@dataclass(frozen=True)
class Loss:
    """The group that lost most, where nobody gained; rates are fractions."""

    rate: str
    group: str
    before: float
    after: float
    gain: float  # the most that any group gained
    word: str = "group"

    def __str__(self) -> str:
        lower = self.rate == LOW_IS_GOOD
        lost, gained = ("rises", "falls") if lower else ("falls", "rises")
        rest = f"no {self.word}'s {gained}" + (f" by more than {100 * self.gain:.1f} points" if self.gain > 0 else "")
        moved = f"from {100 * self.before:.1f} to {100 * self.after:.1f} %"
        return f"the {self.rate} of {self.group} {lost} {moved}, and {rest}"


def nobody_gains(
    before: Mapping[tuple[str, str], float], after: Mapping[tuple[str, str], float], word: str = "group"
) -> Loss | None:
    """The largest loss of a rate, by its name and group, if no group's rate got better; otherwise None."""
    changes = {key: (after[key] - before[key]) * (-1 if key[0] == LOW_IS_GOOD else 1) for key in before}
    known = {key: change for key, change in changes.items() if not math.isnan(change)}
    if len(known) < 2:
        return None
    key = min(known, key=lambda one: known[one])
    gain = max(0.0, *known.values())
    if -known[key] < LEAST_LOSS or gain > GAIN * -known[key]:
        return None
    return Loss(*key, before[key], after[key], gain, word)
