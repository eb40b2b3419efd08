"""Whether our numbers agree with printed ones: a record with the verdicts that follow from its seeds.

Beside a printed number: Welch's interval for the difference of the two means at 95 %, from each side's standard error
and number of runs. Ours is better or worse if the interval leaves out 0, and agrees if it holds 0 and reaches no
further than the margin; otherwise, and where our seeds show no spread, there are too few seeds to say.

Between two rows of ours: a paired t-test over seeds (runs/statistics.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from fairweight.paper import published
from fairweight.paper.published import Printed
from fairweight.runs.statistics import PAIRED_TEST, Mean, mean_of, with_means

LEVEL = 0.95
TEST = (
    "Welch's 95 % interval for the difference of the means, from each side's standard error and number of runs: better "
    "or worse where it leaves out 0; agrees where it holds 0 and reaches no further than the margin (a tenth of the "
    "printed value, for accuracy half a point); otherwise, and where our seeds show no spread, too few seeds to say"
)


def with_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with means, verdicts, paired differences and closed gaps, computed anew from its seeds."""
    rows = with_means(record["rows"], record["numbers"])
    if not record["printed"]:
        return {**record, "paired_test": PAIRED_TEST, "rows": rows, **_gap_closed(rows, {})}
    printed = published.tables()[record["table"]].rows
    for row in rows:
        theirs = printed.get(row["printed_row"] or "", {})
        for number in record["numbers"]:
            if (beside := theirs.get(number["key"])) is not None:
                entry = row["means"][number["key"]]
                entry["printed"] = {"mean": beside.value, "standard_error": beside.error, "runs": beside.runs}
                ours = mean_of(row, number["key"])
                if ours.n:
                    entry |= judge(ours, beside, better=number["better"], margin=number["margin"])
    return {**record, "test": TEST, "paired_test": PAIRED_TEST, "rows": rows, **_gap_closed(rows, printed)}


def judge(
    ours: Mean, printed: Printed, *, better: Literal["lower", "higher"], margin: float | None = None
) -> dict[str, Any]:
    """How ours stands to printed: verdict, difference, half of the interval, margin and a clause that says why.

    A printed number without an error counts as exact.
    """
    margin = 0.1 * abs(printed.value) if margin is None else margin
    difference = ours.value - printed.value
    reach, verdict = None, "too few seeds to say"
    if ours.n < 2 or math.isnan(ours.error) or ours.alike:
        why = {0: "no seed was run", 1: "one seed has no spread"}.get(ours.n, "the seeds are all alike: no spread")
    elif abs(difference) > (reach := _reach(ours, printed)):
        verdict = "better" if (difference > 0) == (better == "higher") else "worse"
        why = f"{difference:+.2f}, beyond ±{reach:.2f}"
    elif reach <= margin:
        verdict, why = "agrees", f"{difference:+.2f}, within ±{reach:.2f}"
    elif (alone := _reach(Mean(ours.value, 0.0, 10**6), printed)) > margin:
        why = f"the printed runs alone leave ±{alone:.2f}"
    else:
        why = f"these seeds leave ±{reach:.2f}"
    return {"verdict": verdict, "difference": difference, "reach": reach, "margin": margin, "why": why}


def _reach(ours: Mean, printed: Printed) -> float:
    """Half of Welch's interval."""
    from scipy import stats

    a, n_a = ours.error**2, ours.n
    b, n_b = (printed.error or 0.0) ** 2, printed.runs or 2
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (n_a - 1) + b**2 / (n_b - 1))
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * math.sqrt(a + b)


def _gap_closed(rows: list[dict[str, Any]], printed: Mapping[str, Mapping[str, Printed]]) -> dict[str, Any]:
    """How much of the way from Uniform on wrong labels to Uniform on clean ones each row goes, ours and printed."""
    by_key = {row["key"]: row for row in rows}
    if not {"uniform", "uniform-clean"} <= by_key.keys():
        return {}
    closed: dict[str, Any] = {}
    for row in rows:
        if row["key"] in ("uniform", "uniform-clean"):
            continue
        closed[row["key"]] = {}
        for number in ("tprd", "accuracy"):
            ours = _share(*(mean_of(by_key[key], number).value for key in (row["key"], "uniform", "uniform-clean")))
            theirs = None
            if row["printed_row"] in printed:
                names = (row["printed_row"], "Uniform", "Uniform (clean data)")
                theirs = _share(*(printed[name][number].value for name in names))
            closed[row["key"]][number] = {"ours": ours, "printed": theirs}
    return {"gap_closed": closed}


def _share(row: float, corrupted: float, clean: float) -> float | None:
    """In percent; None where there is no way to go."""
    way = corrupted - clean
    return None if way == 0 or math.isnan(way + row) else 100 * (corrupted - row) / way
