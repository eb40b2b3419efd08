"""A record with what follows from its seeds: means, verdicts beside printed numbers, differences between rows.

TEST and BETWEEN say what the tests are; only the full size has verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from fairweight.paper import published
from fairweight.paper.published import Printed
from fairweight.paper.tables._forml import BUDGETED
from fairweight.runs.statistics import PAIRED_TEST, WILCOXON_FROM, Mean, by_seed, mean_of, paired, with_means

LEVEL = 0.95
TEST = (
    "Welch's 95 % interval for the difference of the means, from each side's standard error and number of runs. Better "
    "or worse: it excludes 0. Agrees: it contains 0 and reaches no further than the margin (a tenth of the printed "
    "value; half a point for accuracy). Undecided: anything else (the printed runs alone often leave it "
    "so), and fewer than 3 seeds or seeds without spread"
)
BETWEEN = (
    f"{PAIRED_TEST}, and Wilcoxon's signed-rank test from {WILCOXON_FROM} seeds on. The endpoints, named before "
    "running, are TPRD and the standard deviation of the recalls (std), with Holm's correction over all comparisons of "
    "a table"
)
LEAST = 3  # seeds that a verdict takes
DRAWS = 2000  # of the bootstrap
CLEAN = "uniform-clean"  # key of a row


def with_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with means, verdicts, paired differences and closed gaps, computed anew from its seeds."""
    rows = with_means(record["rows"], record["numbers"])
    with_front(rows)
    printed = published.tables()[record["table"]] if record["printed"] else {}
    for row in rows:
        for number in record["numbers"]:
            theirs = printed.get(row["printed_row"] or "", {}).get(number["key"])
            if theirs is None:
                continue
            entry, ours = row["means"][number["key"]], mean_of(row, number["key"])
            entry["printed"] = {"mean": theirs.value, "standard_error": theirs.error, "runs": theirs.runs}
            if ours.n and not record["whole"]:
                entry |= {"verdict": "none at this size", "why": "the printed runs are of the full size"}
            elif ours.n:
                entry |= judge(ours, theirs, better=number["better"], margin=number["margin"])
    test = {"test": TEST} if record["printed"] else {}
    return {**record, **test, "paired_test": BETWEEN, "rows": rows, **_gap_closed(rows, printed)}


def judge(
    ours: Mean, printed: Printed, *, better: Literal["lower", "higher"], margin: float | None = None
) -> dict[str, Any]:
    """How ours stands to printed: verdict, difference, half of the interval, margin and a clause that says why.

    A printed number without an error counts as exact.
    """
    margin = 0.1 * abs(printed.value) if margin is None else margin
    difference = ours.value - printed.value
    reach, verdict = None, "undecided"
    if ours.n < LEAST or math.isnan(ours.error) or ours.alike:
        too_few = {0: "no seed was run", 1: "one seed has no spread", 2: "two seeds say too little about the spread"}
        why = too_few.get(ours.n, "all seeds gave the same: no spread")
    elif abs(difference) > (reach := _reach(ours, printed)):
        verdict = "better" if (difference > 0) == (better == "higher") else "worse"
        why = f"{difference:+.2f}, more than ±{reach:.2f}"
    elif reach <= margin:
        verdict, why = "agrees", f"{difference:+.2f}, within ±{reach:.2f}"
    elif (by_printed := _reach(Mean(ours.value, 0.0, 10**6), printed)) > margin:
        why = f"the printed runs alone leave ±{by_printed:.2f}"
    else:
        why = f"these seeds leave ±{reach:.2f}"
    return {"verdict": verdict, "difference": difference, "reach": reach, "margin": margin, "why": why}


def _reach(ours: Mean, printed: Printed) -> float:
    """Half of Welch's interval."""
    from scipy import stats

    a, b = ours.error**2, (printed.error or 0.0) ** 2
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / ((printed.runs or 2) - 1))
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * math.sqrt(a + b)


def with_front(rows: list[dict[str, Any]]) -> None:
    """Give each row its TPRD beside that of a bias per class on Uniform's logits, at the row's accuracy, seed by seed.

    The bias at several fractions is a front that costs no training; it stands for rows trained on Uniform's samples.
    """
    biased = [row for row in rows if (row.get("moved") or {}).get("how") == "class-bias" and row["key"] != BUDGETED]
    plain = [row for row in rows if len(biased) > 1 and row["key"] == biased[0]["moved"]["of"]]
    for row in rows if plain else ():
        if row.get("spec") is None or row["spec"]["data"] != plain[0]["spec"]["data"] or row in plain:
            continue
        front = {}
        for seed, numbers in row["seeds"].items():
            points = [other["seeds"][seed] for other in (*plain, *biased) if seed in other["seeds"]]
            if len(points) == 1 + len(biased):
                accuracies, tprds = np.array(sorted((point["accuracy"], point["tprd"]) for point in points)).T
                front[seed] = float(np.interp(numbers["accuracy"], accuracies, tprds))
        row["beyond_front"] = paired(by_seed(row, "tprd"), front)


def _gap_closed(rows: list[dict[str, Any]], printed: Mapping[str, Mapping[str, Printed]]) -> dict[str, Any]:
    """How much of the way from Uniform on wrong labels to Uniform on clean ones each row goes, ours and printed."""
    by_key = {row["key"]: row for row in rows}
    if not {"uniform", CLEAN} <= by_key.keys():
        return {}
    closed: dict[str, Any] = {}
    for key, row in by_key.items():
        for number in ("tprd", "accuracy") if key not in ("uniform", CLEAN) else ():
            ours = shares(*(by_seed(by_key[name], number) for name in (key, "uniform", CLEAN)))
            names = (row["printed_row"], "Uniform", "Uniform (clean data)")
            theirs = _share(*(printed[name][number].value for name in names)) if names[0] in printed else None
            closed.setdefault(key, {})[number] = {**ours, "printed": theirs}
    return {"gap_closed": closed}


def shares(row: Mapping[str, float], corrupted: Mapping[str, float], clean: Mapping[str, float]) -> dict[str, Any]:
    """The share of the way to clean, in percent, over the seeds that all three have, with a 95 % bootstrap interval."""
    seeds = sorted(row.keys() & corrupted.keys() & clean.keys(), key=int)
    if not seeds:
        return {"ours": None, "interval": None}
    values = np.array([[numbers[seed] for seed in seeds] for numbers in (row, corrupted, clean)])  # [3, n]
    ours = _share(*values.mean(axis=1))
    if len(seeds) < LEAST or ours is None:
        return {"ours": ours, "interval": None}
    drawn = np.random.default_rng(0).integers(len(seeds), size=(DRAWS, len(seeds)))
    drawn_shares = [_share(*means) for means in values[:, drawn].mean(axis=2).T]
    limits = np.percentile([share for share in drawn_shares if share is not None], [50 - 50 * LEVEL, 50 + 50 * LEVEL])
    return {"ours": ours, "interval": limits.tolist()}


def _share(row: float, corrupted: float, clean: float) -> float | None:
    """In percent; None where there is no way to go."""
    way = corrupted - clean
    return None if way == 0 or math.isnan(way + row) else 100 * float(corrupted - row) / float(way)
