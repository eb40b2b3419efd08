"""Numbers of finished runs: what each run gave, means over seeds, and differences seed by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from fairweight.runs.folder import METRICS, RunFolder


@dataclass(frozen=True)
class Number:
    """A number that tables show, in the unit that it is printed in."""

    key: str
    title: str
    better: Literal["lower", "higher"]
    unit: str = "%"
    margin: float | None = None  # how far apart two means may be and still agree; None: a tenth of the printed value


TPRD = Number("tprd", "TPRD", "lower")
MAX_FNR = Number("max_fnr", "maxFNR", "lower")
ACCURACY = Number("accuracy", "accuracy", "higher", margin=0.5)
# Beside those: key -> title, and how many digits.
BESIDE: dict[str, tuple[str, int]] = {
    "tpr_std": ("std of TPRs", 2),
    "tpr_worst_tenth": ("worst tenth", 2),
    "floor_tprd": ("TPRD of equal groups", 2),
    "equalised_odds_gap": ("equalised odds gap", 2),
    "positive_rate": ("positive rate", 2),
    "score_std": ("std of scores", 4),
    "effective_size": ("effective size", 3),
    "auc_wrong_labels": ("AUC wrong labels", 3),
    "trainings": ("trainings", 0),
    "seconds": ("seconds", 0),
}
# Named before anything is run: the range of the recalls, and their standard deviation, which is less noisy.
ENDPOINTS = ("tprd", "tpr_std")
PAIRED_TEST = "two-sided paired t-test over seeds"
WILCOXON_FROM = 10
ALL_SIGNS = 13  # seeds up to which all signs of the differences are tried
_PERCENT = ("tprd", "max_fnr", "accuracy", "balanced_accuracy", "tpr_std", "tpr_worst_tenth", "equalised_odds_gap")
_OF_SCORES = {"std": "score_std", "effective_size": "effective_size", "auc_wrong_labels": "auc_wrong_labels"}


def numbers_of(folder: RunFolder) -> dict[str, float]:
    """The numbers of a finished run."""
    metrics = folder.read(METRICS)
    scores = metrics.get("scores", {})
    named = {ours: float(scores[theirs]) for theirs, ours in _OF_SCORES.items() if theirs in scores}
    trainings = {"trainings": float(metrics["search"]["trainings"])} if "search" in metrics else {}
    return {**numbers_in(metrics), **named, "seconds": float(metrics["run"]["seconds"]), **trainings}


def numbers_in(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a group table as metrics.json holds it; what could not be estimated is left out."""
    numbers = {key: 100 * float(metrics[key]) for key in _PERCENT if metrics.get(key) is not None}
    floor = metrics["noise_floor"]["tprd"]["mean"]
    if floor is not None:
        numbers["floor_tprd"] = 100 * float(floor)
    groups = metrics["groups"]
    if metrics["by"] == "label":
        numbers.pop("equalised_odds_gap", None)  # of classes against the others: nobody asks for it
    elif metrics["positive"] is not None:
        total = sum(group["n"] for group in groups)
        positives = sum(group["n"] * group["selection_rate"] for group in groups if group["n"])
        numbers["positive_rate"] = 100 * positives / total if total else 0.0
    return numbers


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its standard error."""

    value: float
    error: float  # standard deviation (n - 1) over the root of n; NaN for one value alone
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of these values; NaN where there are none."""
        n = len(values)
        error = statistics.stdev(values) / math.sqrt(n) if n > 1 else math.nan
        return cls(statistics.fmean(values) if n else math.nan, error, n)

    @property
    def alike(self) -> bool:
        """Whether all values are equal but for rounding, so that their spread says nothing."""
        return self.error <= 1e-9 * abs(self.value)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values, None for what cannot be said."""
        value, error = (None if math.isnan(number) else number for number in (self.value, self.error))
        return {"mean": value, "standard_error": error, "n": self.n}

    def text(self, digits: int = 2) -> str:
        return mean_text(self.to_dict(), digits)  # "8.79 ± 0.14"


def mean_text(entry: Mapping[str, Any], digits: int = 2) -> str:
    """A mean with its error, as a record holds it."""
    if entry.get("mean") is None:
        return "–"
    error = entry.get("standard_error")
    return f"{entry['mean']:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def paired(row: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float | int | None]:
    """Mean difference over the seeds that both have, with the p-value of a paired t-test; None if untestable.

    From 10 seeds, with that of Wilcoxon's signed-rank test.
    """
    from scipy import stats

    differences = [row[seed] - other[seed] for seed in sorted(row.keys() & other.keys(), key=int)]
    mean, p = Mean.of(differences), None
    if mean.n > 1 and mean.alike:
        p = 1.0 if mean.value == 0 else None
    elif mean.n > 1:
        p = float(stats.ttest_1samp(differences, 0.0).pvalue)
    values = {**mean.to_dict(), "p": p}
    if mean.n >= WILCOXON_FROM:
        values["wilcoxon"] = signed_rank_p(differences) if any(differences) else 1.0
    return values


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test: of all signs for few seeds, by scipy's choice for more.

    scipy gives the same where seeds tie, half a second for each test.
    """
    from scipy import stats

    if len(differences) > ALL_SIGNS:
        return float(stats.wilcoxon(differences).pvalue)
    moved = np.array([value for value in differences if value])
    ranks, sums = stats.rankdata(np.abs(moved)), np.zeros(1)
    for rank in ranks:
        sums = np.concatenate([sums, sums + rank])  # of the positive ones, under all signs
    observed = ranks[moved > 0].sum()
    return min(1.0, 2 * float(min((sums <= observed).mean(), (sums >= observed).mean())))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction; None stays None."""
    known = sorted(p for p in ps if p is not None)
    steps = accumulate((min(1.0, (len(known) - place) * p) for place, p in enumerate(known)), max)
    corrected = dict(zip(known, steps, strict=True))
    return [None if p is None else corrected[p] for p in ps]


def by_seed(row: Mapping[str, Any], key: str) -> dict[str, float]:
    """One number of a record's row, by seed."""
    return {seed: found[key] for seed, found in row["seeds"].items() if key in found}


def mean_of(row: Mapping[str, Any], key: str) -> Mean:
    """One number of a record's row over its seeds."""
    return Mean.of(list(by_seed(row, key).values()))


def with_means(rows: Sequence[Mapping[str, Any]], numbers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A record's rows with their means, what stands beside them, and differences from the rows they are compared with.

    Computed anew whenever seeds are added.
    """
    by_key = {row["key"]: row for row in rows}
    keys = [change["key"] for change in numbers]
    known = {key for row in rows for seed in row["seeds"].values() for key in seed}
    compared = [*keys, *(key for key in ENDPOINTS if key in known and key not in keys and "tprd" in keys)]
    rows_with_means = [
        {
            **row,
            "means": {key: mean_of(row, key).to_dict() for key in keys},
            "beside": {key: mean_of(row, key).to_dict() for key in BESIDE if by_seed(row, key)},
            "compared": {
                other: {key: paired(by_seed(row, key), by_seed(by_key[other], key)) for key in compared}
                for other in row["against"]
                if other in by_key
            },
        }
        for row in rows
    ]
    for key in ENDPOINTS:
        differences = [change[key] for row in rows_with_means for change in row["compared"].values() if key in change]
        for entry, p in zip(differences, holm([entry["p"] for entry in differences]), strict=True):
            entry["p_holm"] = p
    return rows_with_means
