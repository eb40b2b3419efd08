"""Rows of the tables on the page and the card, as text: by group, in summary, by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairweight.report._format import change, known, percent, points, span, words
from fairweight.report.audit import Audit

SUMMARY = words("numbers")


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
    """The chart of the groups: each rate's values, intervals, baseline's values, and the ends of its own axis."""
    columns = [(metric, title) for metric, title in group_columns(audit) if metric != "accuracy" or audit.has_cells]
    first = "accuracy" if audit.has_cells else "tpr"
    shown = sorted((g for g in audit.metrics["groups"] if known(g[first])), key=lambda g: g[first])[:MOST_BARS]
    before = {} if audit.baseline is None else {g["group"]: g for g in audit.baseline.metrics["groups"]}
    metrics = []
    for metric, title in columns:
        bars = [
            {
                **{"at": group.get(metric), "low": group.get(f"{metric}_low"), "high": group.get(f"{metric}_high")},
                "before": before.get(group["group"], {}).get(metric),
            }
            for group in shown
        ]
        ends = _axis([value for bar in bars for value in bar.values() if known(value)])
        gap = None if audit.has_cells else audit.metrics.get(GAPS[metric])
        told = f"gap {points(gap)}" if known(gap) else ""
        metrics.append({"key": metric, "title": title, "gap": told, "ends": ends, "bars": bars})
    return {"names": [g["group"] for g in shown], "metrics": metrics, "of": len(audit.metrics["groups"])}


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
