"""Numbers of the charts and tables of the page and the card, with their text: by group, in summary, by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fairweight.report._format import change, known, percent, points, short, span, words
from fairweight.report.audit import Audit, Trained

SUMMARY = words("numbers")
LOWEST, HIGHEST = 20, 5  # groups of the chart where there are more
_GAPS = {"tpr": "tprd", "fpr": "fpr_gap", "selection_rate": "selection_rate_gap"}


def group_rates(audit: Audit) -> dict[str, Any]:
    """Each rate of each group beside the baseline's, in the order of `groups`, and the ends of the rate's own axis.

    shown: places of the groups that the chart has, the lowest first; left_out: which ones it has not, in words.
    """
    titles = {"tpr": "True positive rate", "fpr": "False positive rate", "selection_rate": "Predicted positive"}
    if audit.by_label:
        titles |= {"tpr": "Recall (TPR)", "selection_rate": "Predicted as this label"}
    elif audit.has_cells:
        titles = {"accuracy": "Accuracy", "tpr": "Mean TPR over labels"}
    else:
        titles = {"accuracy": "Accuracy", **titles}
    groups = audit.metrics["groups"]
    before = {} if audit.baseline is None else {g["group"]: g for g in audit.baseline.metrics["groups"]}
    sort_by = "accuracy" if audit.has_cells else "tpr"
    order = sorted((k for k, g in enumerate(groups) if known(g[sort_by])), key=lambda k: groups[k][sort_by])
    shown = order or list(range(len(groups)))[: LOWEST + HIGHEST]  # without that rate, others may be known
    left_out = f"{len(groups) - len(shown)} more have too few samples." if len(shown) < len(groups) else ""
    if len(order) > LOWEST + HIGHEST:
        shown = [*order[:LOWEST], *order[-HIGHEST:]]
        left_out = f"The {LOWEST} lowest and the {HIGHEST} highest of {len(groups)}."
    metrics = []
    for metric, title in titles.items():
        rates = [_rate(group, metric, before.get(group["group"], {})) for group in groups]
        drawn = [rates[k][key] for k in shown for key in ("at", "low", "high", "before") if known(rates[k][key])]
        gap = None if audit.has_cells else audit.metrics.get(_GAPS.get(metric, ""))
        gap_text = f"gap {points(gap)}" if known(gap) else ""
        metrics.append({"key": metric, "title": title, "gap": gap_text, "ends": _axis(drawn), "rates": rates})
    charted = [metric for metric in metrics if metric["key"] != "accuracy" or audit.has_cells]
    return {"groups": groups, "metrics": metrics, "charted": charted, "shown": shown, "left_out": left_out}


def _axis(values: list[float]) -> tuple[float, float]:
    """Ends of an axis, on full tenths so that its middle is a round number, too."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    bottom, top = math.floor(10 * low + 1e-9) / 10, math.ceil(10 * high - 1e-9) / 10
    return bottom, top if top > bottom else bottom + 0.1


def _rate(group: Mapping[str, Any], metric: str, before: Mapping[str, Any]) -> dict[str, Any]:
    at, low, high = (group.get(f"{metric}{suffix}") for suffix in ("", "_low", "_high"))
    value, interval = (percent(at), span(low, high)) if known(at) else ("–", "too few samples")
    return {"at": at, "low": low, "high": high, "before": before.get(metric), "value": value, "interval": interval}


def summary_rows(audit: Audit) -> list[dict[str, str]]:
    """One row per number: its title, value and interval, the baseline's, and the difference."""
    rows, base = [], audit.baseline
    for name, title in SUMMARY.items():
        value, before = audit.metrics.get(name), None if base is None else base.metrics.get(name)
        if known(value):
            row = {"title": title, "value": percent(value), "interval": span(*audit.metrics["intervals"][name])}
            row |= dict.fromkeys(("before", "difference", "difference_interval"), "")
            if base is not None and known(before):
                row |= {"before": percent(before), "difference": change(value - before)}
                difference = base.differences.get(name, {})
                row["difference_interval"] = span(difference.get("low"), difference.get("high"), signed=True)
            rows.append(row)
    return rows


def cell_rows(audit: Audit) -> dict[str, list[dict[str, Any]]]:
    """Samples and TPR of every label in every group, by label; empty where there are two labels."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in audit.metrics.get("cells", ()):
        rows.setdefault(cell["label"], []).append({"n": int(cell["n"]), **_rate(cell, "tpr", {})})
    return rows


class Part(NamedTuple):
    """One label, group or cell of the training set."""

    name: str
    n: int  # its samples
    means: Any  # mean weight at the start and after each epoch
    end: float  # the last of them


def movement(trained: Trained, by: str) -> list[Part]:
    """By "label", "group" or "cell", farthest from 1 at the end first; none where no weight moved or no group is known.

    All start at 1, where everybody counts alike, unless weights are fixed.
    """
    parts = trained.weights.groupby(["label", "group"] if by == "cell" else [by], observed=True)
    sizes = parts.size()
    if not trained.weighs or sizes.empty:
        return []
    codes = parts.ngroup().to_numpy()  # -1 where the group is not known
    weights = trained.given_weight.to_numpy(dtype=float)[None]  # [epochs, samples]
    if trained.weight_path is not None and trained.path_rows is not None and len(trained.weight_path):
        weights, codes = np.asarray(trained.weight_path, dtype=float), codes[trained.path_rows]
    means = pd.DataFrame(weights.T).groupby(codes).mean().reindex(range(len(sizes))).to_numpy()  # [parts, epochs]
    means = np.concatenate([means[:, :1] if trained.weights_are_fixed else np.ones_like(means[:, :1]), means], axis=1)
    names = [" · ".join(map(short, key)) if by == "cell" else str(key) for key in sizes.index]
    moved = [Part(*part, end=float(part[2][-1])) for part in zip(names, sizes.tolist(), means, strict=True)]
    return sorted((part for part in moved if part.end == part.end), key=lambda part: -abs(part.end - 1))
