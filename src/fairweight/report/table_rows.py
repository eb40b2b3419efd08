"""Rows of the tables on the page and the card, as text: by group, in summary, by cell, by weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairweight.report._format import change, known, percent, span
from fairweight.report.audit import Audit
from fairweight.report.movement import Movement

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


@dataclass(frozen=True)
class Rate:
    """A rate in words: its value, its interval and the baseline's value."""

    value: str
    interval: str
    before: str = ""


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
            "rates": [rate(group, metric, before.get(group["group"])) for metric, _ in group_columns(audit)],
        }
        for group in audit.metrics["groups"]
    ]


def rate(group: Mapping[str, Any], metric: str, before: Mapping[str, Any] | None = None) -> Rate:
    """One rate of a group."""
    if not known(group[metric]):
        return Rate("–", "too few samples")
    value = percent(group[metric])
    old = "" if before is None or not known(before.get(metric)) else percent(before[metric])
    return Rate(value, span(group[f"{metric}_low"], group[f"{metric}_high"]), old)


def summary_rows(audit: Audit) -> list[dict[str, str]]:
    """One row per number: its title, value and interval, the baseline's, and the difference."""
    rows = []
    for name, title in SUMMARY.items():
        value = audit.metrics.get(name)
        if not known(value):
            continue
        low, high = audit.metrics["intervals"][name]
        row = {"title": title, "value": percent(value), "interval": span(low, high)}
        row |= {"before": "", "difference": "", "difference_interval": ""}
        if audit.baseline is not None and known(audit.baseline.metrics.get(name)):
            row["before"] = percent(audit.baseline.metrics[name])
            apart = audit.baseline.differences.get(name)
            row["difference"] = change(value - audit.baseline.metrics[name])
            row["difference_interval"] = "" if apart is None else span(apart["low"], apart["high"], signed=True)
        rows.append(row)
    return rows


def cell_grid(audit: Audit) -> dict[str, Any] | None:
    """TPR of every label in every group, where labels are more than two."""
    if not audit.has_cells:
        return None
    groups = [g["group"] for g in audit.metrics["groups"]]
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for cell in audit.metrics["cells"]:
        found.setdefault(cell["label"], {})[cell["group"]] = cell
    rows = [
        {"label": label, "cells": [{"n": int(cells[g]["n"]), "rate": rate(cells[g], "tpr")} for g in groups]}
        for label, cells in found.items()
    ]
    return {"groups": groups, "rows": rows}


def weight_rows(moved: Movement, most: int = 60) -> list[dict[str, Any]]:
    """Where the weight ended: the parts that moved most, from the highest mean weight to the lowest."""
    rows = []
    for name, count, weight in moved.most_moved(most).ends():
        strength = min(1.0, abs(weight - 1))
        side = "up" if weight > 1 else "down"
        rows.append({"name": name, "n": count, "weight": f"{weight:.3f}", "side": side, "strength": f"{strength:.2f}"})
    return rows
