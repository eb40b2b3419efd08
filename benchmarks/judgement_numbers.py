"""Numbers of one classifier on test rows, all from one table of counts: accuracy, shares, and a gap per criterion."""

from __future__ import annotations

from typing import Any

import numpy as np

DRAWS = 1_000  # of the bootstrap over test rows
CRITERIA = (
    "equal-opportunity", "equalized-odds", "demographic-parity", "predictive-parity", "accuracy-parity", "worst-group",
)  # fmt: skip
Array = np.ndarray[Any, Any]


def counts_of(labels: Array, predictions: Array, groups: Array) -> Array:
    """Count test rows by group, label and prediction."""  # [G, 2, 2]
    counts = np.zeros((int(groups.max()) + 1, 2, 2), dtype=np.int64)
    np.add.at(counts, (groups, labels, predictions), 1)
    return counts


def gaps_of(counts: Array) -> dict[str, Array]:
    """Give the gap of every criterion, in points; worst-group is the largest error of a group."""  # [..., G, 2, 2]
    c = np.asarray(counts, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        tpr = c[..., 1, 1] / c[..., 1, :].sum(-1)  # [..., G]
        fpr = c[..., 0, 1] / c[..., 0, :].sum(-1)
        chosen = c[..., 1].sum(-1) / c.sum((-1, -2))
        precision = c[..., 1, 1] / c[..., 1].sum(-1)
        right = (c[..., 0, 0] + c[..., 1, 1]) / c.sum((-1, -2))
    tpr_gap, fpr_gap = _range(tpr), _range(fpr)
    return {
        "equal-opportunity": 100 * tpr_gap,
        "equalized-odds": 100 * np.maximum(tpr_gap, fpr_gap),
        "demographic-parity": 100 * _range(chosen),
        "predictive-parity": 100 * _range(precision),
        "accuracy-parity": 100 * _range(right),
        "worst-group": 100 * (1 - right.min(-1)),
    }


def numbers_of(counts: Array, seed: int = 0) -> dict[str, Any]:
    """Give all numbers in points, gaps with 95 % intervals of a bootstrap over test rows; None: a rate of no rows."""
    total = counts.sum(0).astype(float)  # [2, 2]
    n = total.sum()
    drawn = np.random.default_rng(seed).multinomial(int(n), counts.ravel() / n, size=DRAWS)
    drawn_gaps = gaps_of(drawn.reshape(DRAWS, *counts.shape))
    gaps = {}
    for name, value in gaps_of(counts).items():
        known = drawn_gaps[name][np.isfinite(drawn_gaps[name])]
        low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (np.nan, np.nan)
        gaps[name] = {"value": _plain(value), "low": _plain(low), "high": _plain(high)}
    recalls = [total[k, k] / total[k].sum() for k in (0, 1)]
    return {
        "accuracy": 100 * (total[0, 0] + total[1, 1]) / n,
        "balanced_accuracy": 100 * float(np.mean(recalls)),
        "positives": 100 * total[:, 1].sum() / n,
        "gaps": gaps,
        "n_test": int(n),
        "counts": counts.tolist(),
    }


def _range(rates: Array) -> Array:
    return rates.max(-1) - rates.min(-1)


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
