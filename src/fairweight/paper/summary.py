"""From numbers seed by seed to means, verdicts and paired differences; done anew whenever seeds are added."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairweight.paper import published
from fairweight.paper.run_numbers import BESIDE
from fairweight.paper.verdict import PAIRED_TEST, TEST, judge, paired
from fairweight.runs.seed_mean import Mean


def with_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with what follows from its seeds."""
    by_key = {row["key"]: row for row in record["rows"]}
    printed = published.tables()[record["table"]].rows if record["printed"] else {}
    rows = [{**row, **_statistics(row, by_key, record["numbers"], printed)} for row in record["rows"]]
    tests = {"test": TEST, "paired_test": PAIRED_TEST} if record["printed"] else {"paired_test": PAIRED_TEST}
    return {**record, **tests, "rows": rows, **_closed(by_key, printed)}


def values(row: Mapping[str, Any], key: str) -> dict[int, float]:
    """One number of a row, by seed."""
    return {int(seed): found[key] for seed, found in row["seeds"].items() if key in found}


def mean_of(row: Mapping[str, Any], key: str) -> Mean:
    """One number of a row over its seeds."""
    return Mean.of(list(values(row, key).values()))


def _statistics(
    row: Mapping[str, Any],
    by_key: Mapping[str, Mapping[str, Any]],
    numbers: list[dict[str, Any]],
    printed: Mapping[str, Mapping[str, published.Printed]],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    theirs = printed.get(row["printed_row"] or "", {})
    for number in numbers:
        key = number["key"]
        mean = mean_of(row, key)
        entry: dict[str, Any] = mean.to_dict()
        if key in theirs:
            beside = theirs[key]
            entry["printed"] = {"mean": beside.value, "standard_error": beside.error, "runs": beside.runs}
            if mean.n:
                entry |= judge(mean, beside, better=number["better"], margin=number["margin"]).to_dict()
        found[key] = entry
    against = {
        other: {n["key"]: paired(values(row, n["key"]), values(by_key[other], n["key"])).to_dict() for n in numbers}
        for other in row["against"]
        if other in by_key
    }
    beside_them = {key: mean_of(row, key).to_dict() for key in BESIDE if values(row, key)}
    return {"means": found, "beside": beside_them, "compared": against}


def _closed(
    by_key: Mapping[str, Mapping[str, Any]], printed: Mapping[str, Mapping[str, published.Printed]]
) -> dict[str, Any]:
    """How much of the way from Uniform on wrong labels to Uniform on clean ones each row goes, ours and printed."""
    if not {"uniform", "uniform-clean"} <= by_key.keys():
        return {}
    closed: dict[str, dict[str, dict[str, float | None]]] = {}
    for key, row in by_key.items():
        if key in ("uniform", "uniform-clean"):
            continue
        closed[key] = {}
        for number in ("tprd", "accuracy"):
            ours = _share(*(mean_of(by_key[k], number).value for k in (key, "uniform", "uniform-clean")))
            theirs = None
            if row["printed_row"] in printed:
                names = (row["printed_row"], "Uniform", "Uniform (clean data)")
                theirs = _share(*(printed[name][number].value for name in names))
            closed[key][number] = {"ours": ours, "printed": theirs}
    return {"gap_closed": closed}


def _share(row: float, corrupted: float, clean: float) -> float | None:
    """In percent; None where there is no way to go."""
    way = corrupted - clean
    if way == 0 or math.isnan(way) or math.isnan(row):
        return None
    return 100 * (corrupted - row) / way
