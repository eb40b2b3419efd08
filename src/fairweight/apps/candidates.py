"""Models that could be handed over for a table, each judged by predictions on rows it was not trained on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fairweight.apps.judge import Judgement, Rows, Score, Wish, choose, judged, near_constant
from fairweight.apps.second_stage import thresholds
from fairweight.data import Dataset
from fairweight.errors import BadInput, UnknownName, option
from fairweight.metagradient.passes import predicted
from fairweight.methods.reweighing import independent
from fairweight.metrics.criterion import confusion
from fairweight.runs.cross_fit import Folds, all_rows, cross_fitted, folds_for
from fairweight.runs.defaults import knows_groups
from fairweight.runs.learners import LEARNERS, Fitted, Learner, Way, usable
from fairweight.runs.shift import shifted
from fairweight.training.predict import logits
from fairweight.types import Batch

FAMILIES = {
    "plain": "all rows count alike",
    "reweighing": "label and group made independent, at strengths 0.5, 1 and 2",
    "positives": "the same for the positive label alone",
    "multipliers": "the weight of a cell follows its rate, after 1, 2, 3 and 5 trainings",
    "forml-cells": "the mean weight that FORML learns for each cell",
    "forml": "FORML, at strengths 0.3 and 1 (networks)",
}
STRENGTHS = (0.5, 1.0, 2.0)  # of reweighing
ROUNDS = (1, 2, 3, 5)  # of multipliers
PULL = 5.0  # of a rate on its cell's weight
FORML_STRENGTHS = (0.3, 1.0)
BEHIND = 0.5  # points of accuracy beyond the budget by which a learner's plain training may be behind the best
Floats = npt.NDArray[np.float64]
Tell = Callable[[str, int, int], None]  # what was done: its name, how many, of how many at most


@dataclass(frozen=True)
class Asked:
    """What the user said of the search; None leaves it open."""

    wish: Wish
    learner: str | None = None
    families: tuple[str, ...] = tuple(FAMILIES)
    seconds: float | None = None
    groups_at_prediction: bool = False
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of a Spec, for networks

    def __post_init__(self) -> None:
        if strange := [name for name in self.families if name not in FAMILIES]:
            raise UnknownName(f"{option('candidates')}: {strange[0]!r} is none; choose from: {', '.join(FAMILIES)}.")
        if self.learner is not None and self.learner not in LEARNERS:
            raise UnknownName(
                f"{option('learner', self.learner)}: choose {', '.join(LEARNERS)}, or your own as MODULE:MODEL."
            )
        if self.seconds is not None and not self.seconds > 0:
            raise BadInput(f"{option('seconds')}: give a positive time, such as 90s or 5m.")


@dataclass(frozen=True)
class Candidate:
    """A model that could be handed over: what trains it, and its predictions on rows it was not trained on."""

    name: str
    learner: str
    way: Way  # for a training on all rows
    epoch: int
    chances: Floats  # [N, K], NaN for rows that were not predicted
    seconds: float = 0.0
    shift: Floats | None = None  # [G, K] second stage: added to the logits by group

    @property
    def title(self) -> str:
        """Name with its learner."""
        return f"{self.name} ({self.learner})"


@dataclass(frozen=True)
class Search:
    """All candidates with their judgements, the one that was chosen, and its training on all rows."""

    dataset: Dataset  # with every row that is not for test in train
    rows: Rows
    wish: Wish
    plain: Candidate
    candidates: Sequence[Candidate]
    judgements: Sequence[Judgement]
    chosen: Candidate
    fitted: Fitted
    fitted_plain: Fitted
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def kept_plain(self) -> bool:
        """True if nothing beats plain training."""
        return self.chosen is self.plain

    @property
    def plain_score(self) -> Score:
        """Plain training on the rows that all were judged on."""
        return Score.of(self.rows, _said(self.plain, self.judged_rows), self.wish.criterion)

    @property
    def judged_rows(self) -> npt.NDArray[np.bool_]:
        """Rows that were predicted."""  # [N]
        return ~np.isnan(self.plain.chances[:, 0])

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every candidate with what it was judged by."""
        found = [
            {
                "name": one.name,
                "learner": one.learner,
                "epoch": one.epoch,
                "seconds": round(one.seconds, 2),
                **j.to_dict(),
            }
            for one, j in zip(self.candidates, self.judgements, strict=True)
        ]
        return {
            "reference": self.plain.title,
            "chosen": self.chosen.title,
            "rows": int(self.judged_rows.sum()),
            "candidates": found,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 2),
        }


class OutOfTime(Exception):
    """The time that was given does not suffice for another candidate."""


class _Clock:
    """Keeps the time that was given, with what the last trainings on all rows will take set aside."""

    def __init__(self, seconds: float | None) -> None:
        self.start, self.limit = time.monotonic(), seconds
        self.took: dict[str, float] = {}  # the last cross-fit of each learner

    def check(self, learner: str, share: float = 1.0) -> None:
        """Refuse to begin what would not end in time."""
        if self.limit is None:
            return
        kept = max(self.took.values(), default=0.0) * 0.6  # two trainings on all rows
        expected = share * self.took.get(learner, 0.15 * self.limit if learner == "mlp" else 0.0)
        if time.monotonic() - self.start + expected + kept > 0.95 * self.limit and self.took:
            raise OutOfTime


def search(dataset: Dataset, asked: Asked, *, seed: int = 0, device: str = "cpu", tell: Tell | None = None) -> Search:
    """Train and judge the candidates, choose one, train it on all rows and look at it again."""
    start = time.monotonic()
    whole = all_rows(dataset)
    train = whole.train
    assert isinstance(train, Batch)
    by_label = not (whole.group_names and knows_groups(train))
    asked.wish.criterion.check(len(whole.label_names), not by_label)
    folds = folds_for(train, seed)
    names = [name for name in LEARNERS if asked.learner in (None, name) and usable(name, whole)]
    if not names:
        raise BadInput(f"{option('learner', asked.learner)} does not take these inputs; choose mlp.")
    learners = {name: Learner(name, whole, seed, device, asked.training) for name in names}
    made = _Candidates(whole, train, folds, learners, asked, by_label, tell)
    made.run()
    if asked.groups_at_prediction:
        made.second_stage(seed)
    judged_rows = folds.judged
    groups = None if by_label or train.groups is None else train.groups.numpy()[judged_rows]
    rows = Rows(train.labels.numpy()[judged_rows], groups, len(whole.label_names))
    plain = made.best_plain()
    said = _said(plain, judged_rows)
    judgements = [judged(rows, said, _said(one, judged_rows), asked.wish, seed) for one in made.found]
    place = choose(Score.of(rows, said, asked.wish.criterion), judgements, asked.wish)
    chosen = plain if place is None else made.found[place]
    fitted_plain = learners[plain.learner].whole(plain.way, plain.epoch)
    fitted, notes = fitted_plain, list(made.notes)
    if chosen is not plain:
        fitted = learners[chosen.learner].whole(chosen.way, chosen.epoch)
        if chosen.shift is not None:
            fitted = replace(fitted, shift=chosen.shift.tolist())
        if gone_wrong(
            fitted, fitted_plain, whole, judgements[made.found.index(chosen)], judgements[made.found.index(plain)]
        ):
            notes.append(f"{chosen.title} was chosen, and its training on all rows came out close to constant.")
            chosen, fitted = plain, fitted_plain
    return Search(
        whole, rows, asked.wish, plain, made.found, judgements, chosen, fitted, fitted_plain, tuple(notes),
        time.monotonic() - start,
    )  # fmt: skip


def gone_wrong(fitted: Fitted, plain: Fitted, whole: Dataset, then: Judgement, before: Judgement) -> bool:
    """True if a training on all rows is closer to constant, beside plain training's, than it was when judged."""
    train = whole.train
    assert isinstance(train, Batch)
    labels = train.labels.numpy()
    rows = Rows(labels, None, len(whole.label_names))
    fall = 100 * max(0.0, before.score.balanced - then.score.balanced)
    scores = []
    for one in (plain, fitted):
        said = predicted(shifted(logits(one.model, train), train.groups, one.shift)).cpu().numpy()
        counts = confusion(labels, said, None, classes=rows.classes)[0]
        recall = np.diagonal(counts) / np.maximum(1, counts.sum(axis=1))
        share = float((said == 1).mean()) if rows.classes == 2 else float("nan")
        scores.append(Score(float((said == labels).mean()), float(recall.mean()), share, 0.0))
    return near_constant(scores[1], scores[0], 2.0 + fall)


def _said(one: Candidate, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = one.chances[rows].argmax(axis=1)
    return found


class _Candidates:
    """Makes the candidates one after the other, the cheapest first, while time allows."""

    def __init__(
        self,
        whole: Dataset,
        train: Batch,
        folds: Folds,
        learners: Mapping[str, Learner],
        asked: Asked,
        by_label: bool,
        tell: Tell | None,
    ) -> None:
        self.whole, self.train, self.folds, self.learners, self.asked = whole, train, folds, learners, asked
        self.by_label, self.tell = by_label, tell
        self.found: list[Candidate] = []
        self.notes: list[str] = []
        self.clock = _Clock(asked.seconds)
        self._cells: dict[float, Floats] = {}
        self.classes = len(whole.label_names)
        labels = train.labels
        groups = torch.zeros_like(labels) if by_label or train.groups is None else train.groups
        size = 1 if by_label else max(len(whole.group_names), int(groups.max()) + 1)
        known = groups >= 0
        flat = groups[known] * self.classes + labels[known]
        self.counts = torch.bincount(flat, minlength=size * self.classes).reshape(size, self.classes).double().numpy()

    def run(self) -> None:
        """Plain training by every learner, then the ways of weighing for those that are not far behind."""
        try:
            for name in self.learners:
                if name == "mlp" and self.asked.seconds is not None and len(self.learners) > 1:
                    continue  # last, where time is short
                self._plain(name)
            for name in self._in_reach():
                for _ in self._weighed(name):
                    pass
            if not any(one.learner == "mlp" for one in self.found) and "mlp" in self.learners:
                self._plain("mlp")
                for _ in self._weighed("mlp") if "mlp" in self._in_reach() else ():
                    pass
        except OutOfTime:
            self.notes.append("The time was spent before every candidate was trained.")

    def best_plain(self) -> Candidate:
        """Plain training by the learner that is most often right; the cheaper of two alike."""
        rows = self.folds.judged
        labels = self.train.labels.numpy()[rows]
        plain = [one for one in self.found if one.name == "plain"]
        return max(plain, key=lambda one: float((_said(one, rows) == labels).mean()))

    def second_stage(self, seed: int) -> None:
        """Thresholds by group on what is there: plain training by each learner in reach, and the best weighted one."""
        if self.by_label or self.classes != 2 or self.train.groups is None:
            raise BadInput(f"{option('groups_at_prediction')} moves thresholds by group: give groups, and two labels.")
        labels, groups = self.train.labels.numpy(), self.train.groups.numpy()
        plain = [one for one in self.found if one.name == "plain" and one.learner in self._in_reach()]
        # What spends the whole budget on the rows it was found on spends more on others: half of it is tried as well.
        wish = self.asked.wish
        half = replace(wish, budget=wish.allowed / 2) if np.isfinite(wish.allowed) else wish
        for one, name, aim in [
            (one, *rest) for one in plain for rest in (("thresholds", wish), ("thresholds-half", half))
        ]:
            began = time.monotonic()
            chances = one.chances.copy()
            for fold in (*self.folds.used, None):  # for each fold, thresholds that were found without it
                known = self.folds.judged & (groups >= 0)
                there = known if fold is None else known & (self.folds.of != fold)
                up = thresholds(one.chances[there], Rows(labels[there], groups[there], 2), aim)
                shift = np.stack([np.zeros(len(self.counts)), np.resize(up, len(self.counts))], axis=1)
                if fold is not None:
                    inside = self.folds.of == fold
                    table = np.concatenate([shift, shift.mean(axis=0, keepdims=True)])
                    moved = one.chances[inside] * np.exp(table[groups[inside]])
                    chances[inside] = moved / moved.sum(axis=1, keepdims=True)
            took = time.monotonic() - began
            self.found.append(replace(one, name=name, chances=chances, seconds=took, shift=shift))

    def _in_reach(self) -> list[str]:
        rows = self.folds.judged
        labels = self.train.labels.numpy()[rows]
        right = {
            one.learner: 100 * float((_said(one, rows) == labels).mean()) for one in self.found if one.name == "plain"
        }
        allowed = min(self.asked.wish.allowed, 5.0) + BEHIND
        return [name for name in right if right[name] >= max(right.values()) - allowed]

    def _plain(self, learner: str) -> Candidate:
        return self._made("plain", learner, lambda fold: Way(), Way(), None)

    def _made(self, name: str, learner: str, way_of: Callable[[int], Way], way: Way, epoch: int | None) -> Candidate:
        self.clock.check(learner)
        began = time.monotonic()
        chances, kept = cross_fitted(self.learners[learner], self.train, self.folds, way_of, epoch)
        took = time.monotonic() - began
        self.clock.took[learner] = max(took, self.clock.took.get(learner, 0.0))
        self.found.append(Candidate(name, learner, way, kept, chances, took))
        if self.tell is not None:
            self.tell(self.found[-1].title, len(self.found), 0)
        return self.found[-1]

    def _weighed(self, learner: str) -> Iterator[Candidate]:
        """Each way of weighing; trees keep the number of plain training, a network chooses its epoch anew."""
        plain = next(one for one in self.found if one.name == "plain" and one.learner == learner)
        epoch = None if learner == "mlp" else plain.epoch
        families = self.asked.families
        slow = learner == "mlp"
        led = plain is self.best_plain()  # a network's candidates take minutes: the best learner alone has all
        if "multipliers" in families and (led or not slow):
            yield from self._multipliers(plain, epoch, (1, 2) if slow else ROUNDS)
        if "reweighing" in families and not self.by_label and (led or not slow):
            for strength in (1.0,) if slow else STRENGTHS:
                way = Way("reweighing", {"strength": strength})
                yield self._made(f"reweighing-{strength:g}", learner, lambda fold, way=way: way, way, epoch)  # type: ignore[misc]
        if "positives" in families and not self.by_label and self.classes == 2 and not slow:
            cells = np.ones_like(self.counts)
            cells[:, 1] = independent(torch.from_numpy(self.counts.T)).numpy()[1, 1:]
            yield self._fixed("positives", learner, cells, epoch)
        if "forml-cells" in families and not self.by_label and not slow:
            for strength in FORML_STRENGTHS[:1]:
                yield self._fixed("forml-cells", learner, self._forml_cells(strength), epoch)
        if "forml" in families and slow:
            for strength in FORML_STRENGTHS if led else FORML_STRENGTHS[:1]:
                way = Way("forml", self._forml(strength))
                yield self._made(f"forml-{strength:g}", learner, lambda fold, way=way: way, way, epoch)  # type: ignore[misc]

    def _fixed(self, name: str, learner: str, cells: Floats, epoch: int | None) -> Candidate:
        way = Way("label-bias", {}, cells)
        return self._made(name, learner, lambda fold: way, way, epoch)

    def _multipliers(self, plain: Candidate, epoch: int | None, rounds: Sequence[int]) -> Iterator[Candidate]:
        """After each training the weight of a cell is multiplied by what its rate lacks.

        For the rows outside a fold, rates are measured on those rows alone: no fold is judged by weights that it has
        helped to find.
        """
        last = plain
        tables = {fold: np.ones_like(self.counts) for fold in (*self.folds.used, None)}
        for turn in range(1, max(rounds) + 1):
            tables = {fold: self._moved(table, last, fold) for fold, table in tables.items()}
            ways = {fold: Way("label-bias", {}, table) for fold, table in tables.items()}
            last = self._made(f"multipliers-{turn}", plain.learner, lambda fold, w=ways: w[fold], ways[None], epoch)  # type: ignore[misc]
            if turn in rounds:
                yield last
            else:
                self.found.remove(last)

    def _moved(self, table: Floats, last: Candidate, without: int | None) -> Floats:
        rows = self.folds.judged if without is None else self.folds.judged & (self.folds.of != without)
        labels, said = self.train.labels.numpy()[rows], _said(last, rows)
        groups = None if self.by_label or self.train.groups is None else self.train.groups.numpy()[rows]
        counts = confusion(labels, said, groups, classes=self.classes, group_count=len(self.counts))
        push = self.asked.wish.criterion.pressure(counts, by_label=self.by_label)  # [G, K]
        return self._natural(table * np.exp(np.clip(PULL * push, -2.0, 2.0)))

    def _natural(self, cells: Floats) -> Floats:
        """The table with each label's total weight as it is in the data.

        To raise every positive alike would be class balancing: the gap falls because all rates move together.
        """
        if self.by_label:
            return cells
        total: Floats = (self.counts * cells).sum(axis=0)  # [K]
        return np.asarray(cells * self.counts.sum(axis=0) / np.where(total > 0, total, 1.0))

    def _forml(self, strength: float) -> dict[str, Any]:
        if self.by_label:
            return {"objective": f"mean + {strength:g} * variance"}
        term = self.asked.wish.criterion.objective(self.classes)
        return {"objective": f"mean + {strength:g} * {term}"}

    def _forml_cells(self, strength: float) -> Floats:
        """Mean weight of each cell after one training by FORML on all rows: a handful of numbers."""  # [G, K]
        if strength not in self._cells:
            self.clock.check("forml")
            began = time.monotonic()
            learner = Learner("mlp", self.whole, self.learners[next(iter(self.learners))].seed, training_device(self))
            fitted = learner.whole(Way("forml", self._forml(strength)), 5)
            self.clock.took["forml"] = time.monotonic() - began
            weights = fitted.weights.double().numpy()
            groups = self.train.groups
            assert groups is not None
            flat = (groups * self.classes + self.train.labels).numpy()
            known = groups.numpy() >= 0
            total = np.bincount(flat[known], weights[known], minlength=self.counts.size).reshape(self.counts.shape)
            self._cells[strength] = self._natural(np.where(self.counts > 0, total / np.maximum(1, self.counts), 1.0))
        return self._cells[strength]


def training_device(made: _Candidates) -> str:
    """Device that networks are trained on."""
    return next(iter(made.learners.values())).device
