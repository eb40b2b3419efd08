"""Decisions that need no other training: thresholds by group, and a bias per class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fairweight.apps.judge import Floats, Goal, Ints, Mask, Rows
from fairweight.metrics.criterion import POSITIVE, confusion

BIASES = (0.25, 0.5, 1.0)  # strengths of the biases that even out the classes' recalls
PARTS = (0.25, 0.5, 0.75, 1.0)  # of the way to the thresholds that even out the groups
GRID = 80  # thresholds tried for each group
PASSES = 6
DEAR = 100.0  # what a point of accuracy beyond the budget counts, in points of the gap
ROUNDS = 60  # of evening out recalls


class Stage(NamedTuple):
    """A second stage of a model."""

    name: str
    chances: Floats  # [N, K] of which each fold is moved by what the others say
    shift: Floats  # [G, K], or [1, K] for everybody: from all rows


def stages(chances: Floats, rows: Rows, goal: Goal, fold: Ints, used: Sequence[int], by_group: bool) -> Iterator[Stage]:
    """Second stages of a model: a bias per class for several; for two, thresholds where by_group allows them."""
    known = ~np.isnan(chances[:, 0]) & (rows.codes >= 0)
    parts: list[Mask] = [*(known & (fold != k) for k in used), known]
    ways: dict[str, list[Floats]] = {}
    if rows.classes > 2 and (rows.by_label or goal.criterion.every_label):
        biases = [even_recalls(chances[part], rows.at(part), goal) for part in parts]
        ways = {f"bias-{strength:g}": [strength * up for up in biases] for strength in BIASES}
    if by_group and rows.classes == 2 and rows.groups is not None:
        size = int(rows.groups.max()) + 1
        by_part = [thresholds(chances[part], rows.at(part), goal, size) for part in parts]
        # What closes the whole gap cannot be told from what overshoots: parts of the way are tried as well.
        ways = {f"thresholds-{strength:g}": [strength * up for up in by_part] for strength in PARTS}
    for name, shifts in ways.items():
        moved_chances = chances.copy()
        for k, shift in zip(used, shifts[:-1], strict=True):
            in_fold = fold == k
            moved_chances[in_fold] = moved(chances[in_fold], rows.at(in_fold).groups, shift)
        yield Stage(name, moved_chances, shifts[-1])


def moved(chances: Floats, groups: Ints | None, shift: Floats) -> Floats:
    """Probabilities with these numbers added to their logits, by group [G, K] or alike for all [1, K]."""  # [N, K]
    table = np.concatenate([shift, shift.mean(axis=0, keepdims=True)])  # -1, not known, is the last
    added = table[groups] if groups is not None and len(shift) > 1 else table[:1]
    odds = chances * np.exp(added)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def even_recalls(chances: Floats, rows: Rows, goal: Goal) -> Floats:
    """Number to add to each class's logit [1, K] so that the criterion's rates come close; the best of some rounds."""
    logits = np.log(np.clip(chances, 1e-9, 1.0))
    bias = np.zeros(rows.classes)
    smallest, best = np.inf, bias
    for turn in range(ROUNDS):
        counts = confusion(rows.labels, (logits + bias).argmax(axis=1), rows.groups, classes=rows.classes)
        gap = float(goal.criterion.gap_of(counts, by_label=rows.by_label, behind=counts))
        if gap < smallest:
            smallest, best = gap, bias
        pressure = goal.criterion.pressure(counts, by_label=rows.by_label).mean(axis=0)  # [K]
        bias = bias + 2.0 / (1 + turn / 10) * (pressure - pressure.mean())
    return best[None]


def thresholds(chances: Floats, rows: Rows, goal: Goal, groups: int) -> Floats:
    """Number to add to each class's logit by group [G, 2]: found group by group, from several starts.

    The counts of every group at every threshold are taken once, so that a trial costs a sum over groups.
    """
    score = np.log(np.clip(chances[:, POSITIVE], 1e-9, 1)) - np.log(np.clip(chances[:, 1 - POSITIVE], 1e-9, 1))
    cuts, counts = np.zeros((groups, GRID + 1)), np.zeros((groups, GRID + 1, 2, 2))
    every = np.arange(groups)
    for group in range(groups):
        members = rows.codes == group
        labels = rows.labels[members]
        cuts[group, :GRID] = np.quantile(score[members], np.linspace(0.002, 0.998, GRID)) if members.any() else 0.0
        for place, cut in enumerate(cuts[group]):  # the last is 0: the model's own decision
            counts[group, place] = confusion(labels, (score[members] > cut).astype(int), None, classes=2)[0]

    def accuracy(at: Floats) -> Floats:
        return np.asarray((at[..., 0, 0] + at[..., 1, 1]).sum(axis=-1) / len(score))

    as_is = np.full(groups, GRID)
    behind = counts[every, as_is]
    fixed = set(goal.criterion.few(behind))  # their thresholds would follow single rows
    least = accuracy(behind) - goal.allowed / 100

    def cost(at: Floats) -> Floats:
        """The gap, what accuracy lacks, and a little for every error, so that ties go to the more accurate."""  # [T]
        gap, right = np.nan_to_num(goal.criterion.gap_of(at, behind=behind), nan=1.0), accuracy(at)
        return np.asarray(gap + DEAR * np.maximum(0.0, least - right) + 0.1 * (1 - right))

    with np.errstate(invalid="ignore"):  # starts at which every group has about the same true positive rate
        rates = np.nan_to_num(counts[:, :, 1, 1] / counts[:, :, 1].sum(axis=-1))  # [G, T]
    lowest, best = np.inf, as_is
    for start in (as_is, *(np.abs(rates - target).argmin(axis=1) for target in np.linspace(0.1, 0.95, 12))):
        at = np.where(np.isin(every, list(fixed)), as_is, start)
        for _ in range(PASSES):
            before = at.copy()
            for group in set(range(groups)) - fixed:
                trial = np.repeat(counts[every, at][None], GRID + 1, axis=0)  # [T, G, 2, 2]
                trial[:, group] = counts[group]
                at[group] = int(np.argmin(cost(trial)))
            if (at == before).all():
                break
        if (total := float(cost(counts[every, at][None])[0])) < lowest:
            lowest, best = total, at
    return np.stack([np.zeros(groups), -cuts[every, best]], axis=1)
