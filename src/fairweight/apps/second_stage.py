"""Decisions that need no other training: thresholds by group, and a bias per class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairweight.apps.judge import Rows, Wish
from fairweight.metrics.criterion import POSITIVE, confusion

GRID = 80  # thresholds tried for each group
PASSES = 6
DEAR = 10.0  # what a point of accuracy beyond the budget counts, in points of the gap
ROUNDS = 60  # of evening out recalls
Floats = npt.NDArray[np.float64]


def moved(chances: Floats, groups: npt.NDArray[np.int64] | None, shift: Floats) -> Floats:
    """Probabilities with these numbers added to their logits, by group [G, K] or alike for all [1, K]."""  # [N, K]
    table = np.concatenate([shift, shift.mean(axis=0, keepdims=True)])  # -1, not known, is the last
    up = table[groups] if groups is not None and len(shift) > 1 else table[:1]
    found = chances * np.exp(up)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def even_recalls(chances: Floats, rows: Rows, wish: Wish) -> Floats:
    """Number to add to each class's logit [1, K] so that the criterion's rates come close; the best of some rounds."""
    logits = np.log(np.clip(chances, 1e-9, 1.0))
    bias = np.zeros(rows.classes)
    best, found = np.inf, bias
    for turn in range(ROUNDS):
        counts = confusion(rows.labels, (logits + bias).argmax(axis=1), rows.groups, classes=rows.classes)
        gap = float(wish.criterion.gap_of(counts, by_label=rows.by_label))
        if gap < best:
            best, found = gap, bias
        push = wish.criterion.pressure(counts, by_label=rows.by_label).mean(axis=0)  # [K]
        bias = bias + 2.0 / (1 + turn / 10) * (push - push.mean())
    return found[None]


def thresholds(chances: Floats, rows: Rows, wish: Wish, groups: int) -> Floats:
    """Number to add to each class's logit by group [G, 2]: found group by group, from several starts.

    The counts of every group at every threshold are taken once, so that a trial costs a sum over groups.
    """
    assert rows.groups is not None
    score = np.log(np.clip(chances[:, POSITIVE], 1e-9, 1)) - np.log(np.clip(chances[:, 1 - POSITIVE], 1e-9, 1))
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
    up = -cuts[np.arange(groups), found]
    return np.stack([np.zeros(groups), up], axis=1)


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
