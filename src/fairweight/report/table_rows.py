"""Rows of the tables on the page and the card, as text: by group, in summary, by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairweight.report._format import change, known, percent, points, span
from fairweight.report.audit import Audit

SUMMARY = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "worst_group_accuracy": "Worst group's accuracy",
    "tprd": "TPRD: gap in true positive rate",
    "max_fnr": "maxFNR: worst false negative rate",
    "fpr_gap": "Gap in false positive rate",
    "equalised_odds_gap": "Equalised-odds gap",
    "selection_rate_gap": "Gap in share predicted positive",
    "tpr_std": "Standard deviation of true positive rates",
    "tpr_worst_tenth": "True positive rate of the worst tenth",
}


def group_columns(audit: Audit) -> list[tuple[str, str]]:
    """The metrics that say something new: name and title."""
    if audit.by_label:
        return [("tpr", "Recall (TPR)"), ("fpr", "False positive rate"), ("selection_rate", "Predicted as it")]
    if audit.has_cells:
        return [("accuracy", "Accuracy"), ("tpr", "Mean TPR over labels")]
    return [
        ("accuracy", "Accuracy"),
        ("tpr", "True positive rate"),
        ("fpr", "False positive rate"),
        ("selection_rate", "Predicted positive"),
    ]


def group_rows(audit: Audit) -> list[dict[str, Any]]:
    """One row per group: name, samples, and each rate with its interval beside the baseline's."""
    before = {} if audit.baseline is None else {g["group"]: g for g in audit.baseline.metrics["groups"]}
    return [
        {
            "name": group["group"],
            "n": int(group["n"]),
            "positives": None if audit.by_label or audit.has_cells else int(group["n_positive"]),
            "rates": [_rate(group, metric, before.get(group["group"])) for metric, _ in group_columns(audit)],
        }
        for group in audit.metrics["groups"]
    ]


GAPS = {"tpr": "tprd", "fpr": "fpr_gap", "selection_rate": "selection_rate_gap"}
MOST_BARS = 25  # groups of the chart: the lowest


def group_chart(audit: Audit) -> dict[str, Any]:
    """The chart of the groups: each rate's dot, interval and baseline as places from 0 to 100 on its own axis."""
    columns = [(metric, title) for metric, title in group_columns(audit) if metric != "accuracy" or audit.has_cells]
    first = "tpr" if not audit.has_cells else "accuracy"
    shown = sorted((g for g in audit.metrics["groups"] if known(g[first])), key=lambda g: g[first])[:MOST_BARS]
    before = {} if audit.baseline is None else {g["group"]: g for g in audit.baseline.metrics["groups"]}
    metrics = []
    for metric, title in columns:
        rates = [_bar(group, metric, before.get(group["group"])) for group in shown]
        low, high = _axis([value for rate in rates for value in rate.values() if known(value)])
        gap = None if audit.has_cells else audit.metrics.get(GAPS.get(metric, ""))
        metrics.append(
            {
                "key": metric,
                "title": title,
                "gap": f"gap {points(gap)}" if known(gap) else "",
                "ticks": [(place, f"{100 * (low + place / 100 * (high - low)):.0f} %") for place in (0, 50, 100)],
                "bars": [
                    {
                        "value": percent(rate["at"]) if known(rate["at"]) else "too few samples",
                        "was": percent(rate["before"]) if known(rate["before"]) else "",
                        **{key: 100 * (v - low) / (high - low) if known(v) else None for key, v in rate.items()},
                    }
                    for rate in rates
                ],
            }
        )
    return {"names": [g["group"] for g in shown], "metrics": metrics, "of": len(audit.metrics["groups"])}


def _bar(group: Mapping[str, Any], metric: str, before: Mapping[str, Any] | None) -> dict[str, float | None]:
    at, low, high = (group.get(key) for key in (metric, f"{metric}_low", f"{metric}_high"))
    return {"at": at, "low": low, "high": high, "before": None if before is None else before.get(metric)}


def _axis(values: list[float]) -> tuple[float, float]:
    """Ends of an axis, on full tenths so that its middle is a round number, too."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    bottom, top = math.floor(10 * low + 1e-9) / 10, math.ceil(10 * high - 1e-9) / 10
    return bottom, top if top > bottom else bottom + 0.1


def _rate(group: Mapping[str, Any], metric: str, before: Mapping[str, Any] | None = None) -> dict[str, str]:
    if not known(group[metric]):
        return {"value": "–", "interval": "too few samples", "before": ""}
    old = None if before is None else before.get(metric)
    interval = span(group[f"{metric}_low"], group[f"{metric}_high"])
    return {"value": percent(group[metric]), "interval": interval, "before": percent(old) if known(old) else ""}


def summary_rows(audit: Audit) -> list[dict[str, str]]:
    """One row per number: its title, value and interval, the baseline's, and the difference."""
    rows = []
    for name, title in SUMMARY.items():
        value = audit.metrics.get(name)
        if not known(value):
            continue
        low, high = audit.metrics["intervals"][name]
        before = None if audit.baseline is None else audit.baseline.metrics.get(name)
        apart = audit.baseline.differences.get(name) if audit.baseline is not None and known(before) else None
        rows.append(
            {
                "title": title,
                "value": percent(value),
                "interval": span(low, high),
                "before": percent(before) if known(before) else "",
                "difference": change(value - before) if known(before) else "",
                "difference_interval": "" if apart is None else span(apart["low"], apart["high"], signed=True),
            }
        )
    return rows


def cell_rows(audit: Audit) -> dict[str, list[dict[str, Any]]]:
    """Samples and TPR of every label in every group, by label; empty where there are two labels."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in audit.metrics.get("cells", ()):
        rows.setdefault(cell["label"], []).append({"n": int(cell["n"]), "rate": _rate(cell, "tpr")})
    return rows
