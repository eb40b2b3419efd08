"""Whether our numbers agree with printed ones: a record with the verdicts that follow from its seeds.

Beside a printed number: Welch's interval for the difference of the two means at 95 %, from each side's standard error
and number of runs. Ours is better or worse if the interval leaves out 0, and agrees if it holds 0 and reaches no
further than the margin; otherwise, and where our seeds are two or show no spread, there are too few seeds to say. Only
the full size has verdicts: a shortened schedule is not what was printed.

Between two rows of ours: a paired t-test over seeds, Wilcoxon's beside it, and Holm's correction of the endpoints
(runs/statistics.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from fairweight.paper import published
from fairweight.paper._table_text import is_whole
from fairweight.paper.published import Printed
from fairweight.runs.statistics import PAIRED_TEST, WILCOXON_FROM, Mean, by_seed, mean_of, paired, with_means

LEVEL = 0.95
TEST = (
    "Welch's 95 % interval for the difference of the means, from each side's standard error and number of runs: better "
    "or worse where it leaves out 0; agrees where it holds 0 and reaches no further than the margin (a tenth of the "
    "printed value, for accuracy half a point); otherwise, and where our seeds are fewer than 3 or show no spread, too "
    "few seeds to say"
)
BETWEEN = (
    f"{PAIRED_TEST}, from {WILCOXON_FROM} seeds with Wilcoxon's signed-rank test beside it; the endpoints, named "
    "before running, are TPRD and the standard deviation of the recalls (std), with Holm's correction over all of a "
    "table's comparisons"
)
NO_VERDICT = "none at this size"
LEAST = 3  # seeds that a verdict takes
DRAWS = 2000  # of the bootstrap
CLEAN, BUDGETED = "uniform-clean", "class-bias-budget"  # keys of rows


def with_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with means, verdicts, paired differences and closed gaps, computed anew from its seeds."""
    rows = with_means(record["rows"], record["numbers"])
    with_front(rows)
    if not record["printed"]:
        return {**record, "paired_test": BETWEEN, "rows": rows, **_gap_closed(rows, {})}
    printed = published.tables()[record["table"]].rows
    for row in rows:
        theirs = printed.get(row["printed_row"] or "", {})
        for number in record["numbers"]:
            if (beside := theirs.get(number["key"])) is not None:
                entry = row["means"][number["key"]]
                entry["printed"] = {"mean": beside.value, "standard_error": beside.error, "runs": beside.runs}
                ours = mean_of(row, number["key"])
                if ours.n and not is_whole(record):
                    entry |= {"verdict": NO_VERDICT, "why": "the printed runs are of the full size"}
                elif ours.n:
                    entry |= judge(ours, beside, better=number["better"], margin=number["margin"])
    return {**record, "test": TEST, "paired_test": BETWEEN, "rows": rows, **_gap_closed(rows, printed)}


def judge(
    ours: Mean, printed: Printed, *, better: Literal["lower", "higher"], margin: float | None = None
) -> dict[str, Any]:
    """How ours stands to printed: verdict, difference, half of the interval, margin and a clause that says why.

    A printed number without an error counts as exact.
    """
    margin = 0.1 * abs(printed.value) if margin is None else margin
    difference = ours.value - printed.value
    reach, verdict = None, "too few seeds to say"
    if ours.n < LEAST or math.isnan(ours.error) or ours.alike:
        few = {0: "no seed was run", 1: "one seed has no spread", 2: "two seeds are no spread to go by"}
        why = few.get(ours.n, "the seeds are all alike: no spread")
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


def with_front(rows: list[dict[str, Any]]) -> None:
    """Give each row its TPRD beside that of a bias per class on Uniform's logits, at the row's accuracy, seed by seed.

    The bias at several fractions is a front that costs no training; it stands for rows trained on Uniform's samples.
    """
    import numpy as np

    biased = [row for row in rows if (row.get("moved") or {}).get("how") == "class-bias" and row["key"] != BUDGETED]
    plain = [row for row in rows if len(biased) > 1 and row["key"] == biased[0]["moved"]["of"]]
    for row in rows if plain else ():
        if row.get("spec") is None or row["spec"]["data"] != plain[0]["spec"]["data"] or row in plain:
            continue
        front = {}
        for seed, found in row["seeds"].items():
            points = sorted(
                (other["seeds"][seed]["accuracy"], other["seeds"][seed]["tprd"])
                for other in (*plain, *biased)
                if seed in other["seeds"]
            )
            if len(points) == 1 + len(biased):
                accuracies, tprds = np.array(points).T
                front[seed] = float(np.interp(found["accuracy"], accuracies, tprds))
        row["beyond_front"] = paired(by_seed(row, "tprd"), front)


def _gap_closed(rows: list[dict[str, Any]], printed: Mapping[str, Mapping[str, Printed]]) -> dict[str, Any]:
    """How much of the way from Uniform on wrong labels to Uniform on clean ones each row goes, ours and printed."""
    by_key = {row["key"]: row for row in rows}
    if not {"uniform", CLEAN} <= by_key.keys():
        return {}
    closed: dict[str, Any] = {}
    for row in rows:
        if row["key"] in ("uniform", CLEAN):
            continue
        closed[row["key"]] = {}
        for number in ("tprd", "accuracy"):
            values = [by_seed(by_key[key], number) for key in (row["key"], "uniform", CLEAN)]
            theirs = None
            if row["printed_row"] in printed:
                names = (row["printed_row"], "Uniform", "Uniform (clean data)")
                theirs = _share(*(printed[name][number].value for name in names))
            closed[row["key"]][number] = {**shares(*values), "printed": theirs}
    return {"gap_closed": closed}


def shares(row: Mapping[str, float], corrupted: Mapping[str, float], clean: Mapping[str, float]) -> dict[str, Any]:
    """The share of the way to clean, in percent, over the seeds that all three have, with a 95 % bootstrap interval."""
    import numpy as np

    seeds = sorted(row.keys() & corrupted.keys() & clean.keys(), key=int)
    values = np.array([[found[seed] for seed in seeds] for found in (row, corrupted, clean)])  # [3, n]
    if not seeds:
        return {"ours": None, "interval": None}
    ours = _share(*values.mean(axis=1))
    if len(seeds) < LEAST or ours is None:
        return {"ours": ours, "interval": None}
    drawn = np.random.default_rng(0).integers(len(seeds), size=(DRAWS, len(seeds)))
    found = [_share(*means) for means in values[:, drawn].mean(axis=2).T]
    limits = np.percentile([share for share in found if share is not None], [50 - 50 * LEVEL, 50 + 50 * LEVEL])
    return {"ours": ours, "interval": limits.tolist()}


def _share(row: float, corrupted: float, clean: float) -> float | None:
    """In percent; None where there is no way to go."""
    way = corrupted - clean
    return None if way == 0 or math.isnan(way + row) else 100 * float(corrupted - row) / float(way)
