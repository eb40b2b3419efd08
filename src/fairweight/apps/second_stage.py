"""Thresholds by group on a model's probabilities: the smallest gap within the budget of accuracy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairweight.apps.judge import Rows, Wish
from fairweight.metrics.criterion import POSITIVE

GRID = 80  # thresholds tried for each group
PASSES = 6
DEAR = 10.0  # what a point of accuracy beyond the budget counts, in points of the gap
Floats = npt.NDArray[np.float64]


def thresholds(chances: Floats, rows: Rows, wish: Wish) -> Floats:
    """Number to add to the positive class's logit, by group [G]: found group by group, from several starts.

    The counts of every group at every threshold are taken once, so that a trial costs a sum over groups.
    """
    assert rows.groups is not None
    score = np.log(np.clip(chances[:, POSITIVE], 1e-9, 1)) - np.log(np.clip(chances[:, 1 - POSITIVE], 1e-9, 1))
    groups = int(rows.groups.max()) + 1
    cuts = np.zeros((groups, GRID + 1))
    counts = np.zeros((groups, GRID + 1, 2, 2))
    for group in range(groups):
        there = rows.groups == group
        cuts[group, :GRID] = np.quantile(score[there], np.linspace(0.002, 0.998, GRID)) if there.any() else 0.0
        for place, cut in enumerate(cuts[group]):  # the last is 0: the model's own decision
            said, label = score[there] > cut, rows.labels[there]
            for y in (0, 1):
                counts[group, place, y] = [(~said[label == y]).sum(), said[label == y].sum()]
    own = np.full(groups, GRID)
    right = _right(counts[np.arange(groups), own])
    floor = right / len(score) - wish.allowed / 100
    best, found = np.inf, own
    for start in (own, *_even_starts(counts, groups)):
        at = start.copy()
        for _ in range(PASSES):
            before = at.copy()
            for group in range(groups):
                trial = np.repeat(counts[np.arange(groups), at][None], GRID + 1, axis=0)  # [T, G, 2, 2]
                trial[:, group] = counts[group]
                cost = _cost(trial, wish, floor, len(score))
                at[group] = int(np.argmin(cost))
            if (at == before).all():
                break
        cost_here = float(_cost(counts[np.arange(groups), at][None], wish, floor, len(score))[0])
        if cost_here < best:
            best, found = cost_here, at
    return np.asarray(-cuts[np.arange(groups), found])


def _even_starts(counts: Floats, groups: int) -> list[npt.NDArray[np.int64]]:
    """Thresholds at which every group has about the same true positive rate, for a range of rates."""
    with np.errstate(invalid="ignore"):
        rate = np.nan_to_num(counts[:, :, 1, 1] / counts[:, :, 1].sum(axis=-1))  # [G, T]
    return [np.abs(rate - wanted).argmin(axis=1) for wanted in np.linspace(0.1, 0.95, 12)]


def _right(counts: Floats) -> float:
    return float(counts[..., 0, 0].sum() + counts[..., 1, 1].sum())


def _cost(counts: Floats, wish: Wish, floor: float, n: int) -> Floats:
    """The gap, plus what accuracy lacks, plus a little for every error, so that ties go to the more accurate."""  # [T]
    accuracy = (counts[..., 0, 0] + counts[..., 1, 1]).sum(axis=-1) / n
    gap = np.nan_to_num(wish.criterion.gap_of(counts), nan=1.0)
    return np.asarray(gap + DEAR * np.maximum(0.0, floor - accuracy) + 0.1 * (1 - accuracy))
