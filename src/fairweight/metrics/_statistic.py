"""The numbers that sum up a table, by name: tprd, max_fnr, accuracy_gap, selection_rate_ratio and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairweight.errors import UnknownName
from fairweight.metrics._rates import HIGH_IS_WORSE, METRICS, SUMMARIES, View, worst, worst_tenth
from fairweight.metrics._tally import Counts, Floats, Strata

# The numbers that every table reports.
SCALARS = (
    "accuracy",
    "balanced_accuracy",
    "worst_group_accuracy",
    "tprd",
    "max_fnr",
    "fpr_gap",
    "equalised_odds_gap",
    "selection_rate_gap",
    "tpr_std",
    "tpr_worst_tenth",
)
Kind = Literal["overall", "gap", "ratio", "std", "worst", "worst_tenth", "odds"]
_NAMED: dict[str, tuple[Kind, str]] = {
    "tprd": ("gap", "tpr"),
    "max_fnr": ("worst", "fnr"),
    "worst_group_accuracy": ("worst", "accuracy"),
    "equalised_odds_gap": ("odds", "tpr"),
}
_ENDINGS: tuple[Kind, ...] = ("worst_tenth", "gap", "ratio", "std", "worst")


@dataclass(frozen=True)
class Statistic:
    """One number of a table: what is taken over the groups, and of which metric."""

    kind: Kind
    metric: str

    @classmethod
    def named(cls, name: str, own: tuple[str, ...] = ()) -> Statistic:
        """The statistic of this name; `own` are the metrics that the caller added."""
        known = (*METRICS, *own)
        found = cls._find(name, known)
        if found is None:
            raise UnknownName(
                f"{name!r} is no number of this table; choose from: {', '.join(SCALARS)}, or a metric "
                f"({', '.join(known)}), alone or with _gap, _ratio, _std, _worst or _worst_tenth after it."
            )
        return found

    @classmethod
    def is_named(cls, name: str) -> bool:
        """Whether every table has a number of this name."""
        return cls._find(name, METRICS) is not None

    @classmethod
    def _find(cls, name: str, known: tuple[str, ...]) -> Statistic | None:
        if name in _NAMED:
            return cls(*_NAMED[name])
        if name in known:
            return cls("overall", name)
        for kind in _ENDINGS:
            metric = name.removesuffix(f"_{kind}")
            if metric != name and metric in known:
                return cls(kind, metric)
        return None

    @property
    def high_is_worse(self) -> bool:
        """Whether the worst group is the one with the highest value."""
        return self.metric in HIGH_IS_WORSE

    def __call__(self, counts: Counts, view: View) -> Floats:
        """The statistic's value for counts with any number of draws before them: [...]."""
        if self.kind == "overall":
            return view.overall(self.metric, counts)
        if self.kind == "odds":  # NaN where either half is: half of the odds can look fair
            return np.maximum(*(SUMMARIES["gap"](view.cells(metric, counts)) for metric in ("tpr", "fpr")))
        return self.of(view.cells(self.metric, counts))

    def of(self, cells: Floats) -> Floats:
        """The statistic of a metric that is at hand by row and target [..., R, T]."""
        if self.kind == "worst":
            return worst(cells, self.high_is_worse)
        if self.kind == "worst_tenth":
            return worst_tenth(cells, self.high_is_worse)
        return SUMMARIES[self.kind](cells)

    def strata(self, view: View) -> Strata:
        """What resampling must keep: a rate among a label's samples keeps their number, others the group's."""
        if self.metric in ("selection_rate", "accuracy") and not (view.by_label and self.kind != "overall"):
            return "all" if self.kind == "overall" else "group"
        if self.metric == "selection_rate":
            return "all"
        return "cell"
