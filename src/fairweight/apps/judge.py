"""What is to be trained, by which goal, and the rule that chooses among models by predictions on rows new to them.

The smallest gap within the budget of accuracy; plain training is left only where a paired bootstrap says that the gap
is smaller, and never for a predictor that is close to constant; docs/choices says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairweight.constraints import plain_seed
from fairweight.errors import BadInput, UnknownName, option
from fairweight.metrics.criterion import POSITIVE, Criterion
from fairweight.runs.learners import LEARNERS

FAMILIES = {
    "plain": "all rows count alike",
    "reweighing": "label and group made independent, at strengths 0.5, 1 and 2",
    "positives": "the same for the positive label alone",
    "multipliers": "the weight of a cell follows its rate, after 1, 2 and 3 trainings",
    "forml-rates": "FORML's scores by cell follow the rates of those trainings, averaged, at several strengths",
    "forml-cells": "the mean weight that FORML learns for each cell",
    "forml": "FORML itself, at strengths 0.3 and 1 (networks)",
}
BUDGET = 0.3  # points of accuracy that may be given up, where neither bound nor budget is said
LEVEL = 0.95  # of intervals that are told
SURE = 0.90  # of the interval that must lie below 0 before plain training is left
DRAWS = 2_000
NOTHING = "Nothing beat plain training on the rows that models were judged on"
GRAIN = 60  # steps of a share: exact for the means of up to six models
LEAST_BALANCED = 2.0  # points of balanced accuracy below plain training's for the usual budget: more is near constant
SHARES = (0.5, 2.0)  # of plain training's share of positives
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Goal:
    """What the user means by fair, and what it may cost. bound, budget: in points."""

    criterion: Criterion
    bound: float | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        for name in ("bound", "budget"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 100:
                raise BadInput(f"{option(name, value)}: give points from 0 to 100, such as {option(name, 2)}.")

    @property
    def allowed(self) -> float:
        """Points of accuracy that may be given up."""
        if self.budget is not None:
            return self.budget
        return BUDGET if self.bound is None else math.inf

    def margin(self, plain: Score, classes: int) -> float:
        """Points of balanced accuracy below plain training's that are not yet close to constant.

        They grow with the accuracy that the user gives up, to at most half of what plain training has above chance.
        """
        half = (100 * plain.balanced - 100 / classes) / 2
        return max(LEAST_BALANCED, min(half, LEAST_BALANCED * self.allowed / BUDGET))


@dataclass(frozen=True)
class TrainRequest:
    """What the user asks for; everything else is chosen by the data."""

    source: str
    label: str | None = None
    group: str | None = None
    method: str | None = None  # None: the best of many, judged beside plain training
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)  # options of data.load, as plain values
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of a Spec
    criterion: str | None = None  # None: by the data
    bound: float | None = None  # largest gap, in points
    budget: float | None = None  # largest loss of accuracy, in points
    each: bool = False  # sensitive columns side by side: the worst counts
    learner: str | None = None
    candidates: Sequence[str] | None = None  # families beside plain training; None: all
    seconds: float | None = None
    groups_at_prediction: bool = False
    seeds: int = 1  # cross-fits of every candidate

    def __post_init__(self) -> None:
        if strange := [name for name in self.families if name not in FAMILIES]:
            raise UnknownName(f"{option('candidates')}: {strange[0]!r} is none; choose from: {', '.join(FAMILIES)}.")
        if self.learner is not None and self.learner not in LEARNERS and ":" not in self.learner:
            raise UnknownName(
                f"{option('learner', self.learner)}: choose {', '.join(LEARNERS)}, or your own as MODULE:MODEL."
            )

    @property
    def families(self) -> tuple[str, ...]:
        """Ways of weighing to try, plain training first."""
        return tuple(FAMILIES) if self.candidates is None else ("plain", *self.candidates)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these fields that were given."""
        usual = TrainRequest(self.source)
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}


@dataclass(frozen=True)
class Rows:
    """Labels and groups of the rows that models are judged on."""

    labels: Ints
    groups: Ints | None
    classes: int

    @property
    def by_label(self) -> bool:
        """True if the label stands for the group."""
        return self.groups is None

    @property
    def codes(self) -> Ints:
        """Group of each row; 0 for all where the label stands for the group."""
        return np.zeros_like(self.labels) if self.groups is None else self.groups

    def at(self, there: Mask) -> Rows:
        """Some of the rows."""
        return Rows(self.labels[there], None if self.groups is None else self.groups[there], self.classes)


def shares(predictions: Ints | Floats, classes: int) -> Floats:
    """Predictions as shares of each class: one-hot, or what several models of one kind said of a row."""  # [N, K]
    return np.asarray(predictions if predictions.ndim == 2 else np.eye(classes)[predictions])


def counted(rows: Rows, predictions: Ints | Floats) -> Floats:
    """Count predictions, [N] or shares [N, K], by group, label and prediction."""  # [G, K, K]
    by_class, groups, k = shares(predictions, rows.classes), rows.codes, rows.classes
    known, size = groups >= 0, int(groups.max(initial=0)) + 1
    flat = (groups * k + rows.labels)[known]
    counts = np.stack([np.bincount(flat, column[known], size * k) for column in by_class.T], axis=1)
    return np.asarray(counts.reshape(size, k, k), dtype=np.float64)


@dataclass(frozen=True)
class Score:
    """What a model's predictions on those rows amount to; fractions."""

    accuracy: float
    balanced: float
    share: float  # predicted positive; NaN with more than two classes
    gap: float

    @classmethod
    def of(cls, rows: Rows, predictions: Ints | Floats, criterion: Criterion, behind: Floats | None = None) -> Score:
        """Count the predictions, [N] or shares [N, K]; behind: as for the criterion's gap."""
        by_class, k = shares(predictions, rows.classes), rows.classes
        of_label, per_label = by_class[np.arange(len(by_class)), rows.labels], np.bincount(rows.labels)
        recall = np.bincount(rows.labels, of_label)[per_label > 0] / per_label[per_label > 0]
        share = float(by_class[:, POSITIVE].mean()) if k == 2 else math.nan
        gap = float(criterion.gap_of(counted(rows, by_class), by_label=rows.by_label, behind=behind))
        return cls(float(of_label.mean()), float(recall.mean()), share, gap)


def near_constant(score: Score, plain: Score, margin: float = LEAST_BALANCED) -> bool:
    """True if the predictor is much closer to constant than plain training."""
    if 100 * (plain.balanced - score.balanced) > margin:
        return True
    return not math.isnan(score.share) and not SHARES[0] * plain.share <= score.share <= SHARES[1] * plain.share


def gap_change(
    rows: Rows, plain: Ints | Floats, other: Ints | Floats, criterion: Criterion, *, seed: int = 0,
    level: float = LEVEL, behind: Floats | None = None,
) -> tuple[float, float, float]:  # fmt: skip
    """Gap of other predictions minus that of plain training's, with a paired bootstrap interval.

    behind: as for the criterion's gap. Rows that are alike in cell and in both predictions are drawn as one, with
    their number.
    """
    from scipy import sparse

    k, groups = rows.classes, rows.codes
    size = int(groups.max(initial=0)) + 1
    both = np.concatenate([np.rint(GRAIN * shares(each, k)) for each in (plain, other)], axis=1)  # [N, 2 K]
    every = np.column_stack([groups * k + rows.labels, both])[groups >= 0]
    kinds, counts = np.unique(every, axis=0, return_counts=True)
    draws = DRAWS if size * k * k < 2_000 else DRAWS // 10  # of many classes each draw is a large table
    drawn = np.random.default_rng(plain_seed(seed)).multinomial(counts.sum(), counts / counts.sum(), size=draws)
    drawn = np.concatenate([counts[None], drawn])  # [D + 1, M], the rows themselves first
    place = kinds[:, :1].astype(np.int64) * k + np.arange(k)  # [M, K]
    where = np.repeat(np.arange(len(kinds)), k), place.ravel()
    gaps = []
    for predictions in (kinds[:, 1 : k + 1] / GRAIN, kinds[:, k + 1 :] / GRAIN):
        table = sparse.csr_array((predictions.ravel(), where), (len(predictions), size * k * k))
        gaps.append(criterion.gap_of((drawn @ table).reshape(-1, size, k, k), by_label=rows.by_label, behind=behind))
    change = gaps[1] - gaps[0]
    if np.isnan(change[0]):
        return math.nan, math.nan, math.nan
    low, high = np.nanquantile(change[1:], [(1 - level) / 2, (1 + level) / 2])
    return float(change[0]), float(low), float(high)


@dataclass(frozen=True)
class Judgement:
    """One model beside plain training."""

    score: Score
    change: tuple[float, float, float]  # of the gap, with its interval
    constant: bool
    within: bool  # the budget

    @property
    def sound(self) -> bool:
        """True if it keeps the budget, is not close to constant, and its gap is known."""
        return self.within and not self.constant and not math.isnan(self.score.gap)

    @property
    def allowed(self) -> bool:
        """True if plain training may be left for it: the whole interval of the gap's change lies below 0."""
        return self.sound and self.change[2] < 0

    def to_dict(self) -> dict[str, Any]:
        numbers = {"accuracy": self.score.accuracy, "balanced_accuracy": self.score.balanced, "gap": self.score.gap}
        numbers |= dict(zip(("gap_change", "low", "high"), self.change, strict=True))
        return {
            **known_values(numbers),
            "near_constant": self.constant,
            "within_budget": self.within,
            "allowed": self.allowed,
        }


def known_values(values: Mapping[str, float]) -> dict[str, Any]:
    """Numbers for JSON, None for what cannot be said."""
    return {key: None if math.isnan(value) else float(value) for key, value in values.items()}


def judged(rows: Rows, plain: Ints | Floats, other: Ints | Floats, goal: Goal, seed: int = 0) -> Judgement:
    """Set a model's predictions beside plain training's; rates on too few rows take no part."""
    behind = counted(rows, plain)
    before, after = (Score.of(rows, predictions, goal.criterion, behind) for predictions in (plain, other))
    within = 100 * (before.accuracy - after.accuracy) <= goal.allowed + 1e-9
    change = gap_change(rows, plain, other, goal.criterion, seed=seed, level=SURE, behind=behind)
    return Judgement(after, change, near_constant(after, before, goal.margin(before, rows.classes)), within)


def why_plain(plain: Score, goal: Goal) -> str:
    """Why plain training was kept, as the beginning of a sentence."""
    if goal.bound is not None and 100 * plain.gap <= goal.bound:
        return f"Plain training keeps the bound of {goal.bound:g} points on the rows that models were judged on"
    return NOTHING


def choose(plain: Score, judgements: Sequence[Judgement], goal: Goal, *, sure: bool = True) -> int | None:
    """Place of the model to take; None for plain training.

    With a bound: the most accurate that keeps it, and plain training where that does; if none does, the smallest gap.
    sure: whether chance must not explain the smaller gap.
    """
    allowed = [k for k, judgement in enumerate(judgements) if (judgement.allowed if sure else judgement.sound)]
    if goal.bound is not None:
        if 100 * plain.gap <= goal.bound:
            return None
        if keeps := [k for k in allowed if 100 * judgements[k].score.gap <= goal.bound]:
            return max(keeps, key=lambda k: (judgements[k].score.accuracy, -judgements[k].score.gap))
    return min(allowed, key=lambda k: (judgements[k].score.gap, -judgements[k].score.accuracy), default=None)


def judged_together(
    rows: Rows, plain: Ints | Floats, others: Sequence[Ints | Floats], goal: Goal, seed: int, *, sure: bool = True
) -> tuple[list[Judgement], int | None, str]:
    """Judge models beside plain training: all judgements, the place of the one to take, and why plain training stays.

    The place is None for plain training; sure: as for choose.
    """
    plain_score = Score.of(rows, plain, goal.criterion, counted(rows, plain))
    judgements = [judged(rows, plain, predictions, goal, seed) for predictions in others]
    return judgements, choose(plain_score, judgements, goal, sure=sure), why_plain(plain_score, goal)
