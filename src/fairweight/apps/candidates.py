"""Models that could be handed over for a table, each with predictions on rows it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fairweight.apps.judge import BUDGET, Floats, Ints, Mask, Rows, Wanted, Wish
from fairweight.apps.second_stage import stages
from fairweight.data import Dataset
from fairweight.errors import BadInput, OneGroup, option
from fairweight.methods.reweighing import independent
from fairweight.metrics.criterion import confusion
from fairweight.runs.clock import Clock, OutOfTime
from fairweight.runs.cross_fit import Folds, cross_fitted
from fairweight.runs.learners import Learner, Way
from fairweight.types import Batch

STRENGTHS = (0.5, 1.0, 2.0)  # of reweighing
ROUNDS = 3  # of multipliers
RATE_STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # of the averaged scores: what closes half the gap is sure sooner
PULL = 5.0  # of a rate on its cell's score
FORML_STRENGTHS = (0.3, 1.0)
BEHIND = 0.5  # points of accuracy beyond the budget by which a learner's plain training may be behind the best
FORML_COST, FIXED_COST = 4.0, 0.5  # a training by FORML, and one whose epoch is known, in plain trainings
Tables = Mapping[int | None, Floats]  # [G, K] weights for the rows outside each fold; None: for all rows
Tell = Callable[[str, int], None]  # a model was trained and judged: its name, how many so far


@dataclass(frozen=True)
class Candidate:
    """A model that could be handed over: what trains it, and its predictions on rows it was not trained on."""

    name: str
    learner: str
    way: Way  # for a training on all rows
    epoch: int
    chances: Floats  # [N, K], NaN for rows that were not predicted
    seconds: float = 0.0
    shift: Floats | None = None  # [G, K] second stage: added to the logits by group; [1, K]: for everybody
    again: tuple[Floats, ...] = ()  # chances of further seeds

    @property
    def title(self) -> str:
        """Name with its learner."""
        return f"{self.name} ({self.learner})"

    def said(self, rows: Mask) -> Floats:
        """Share of each class among the predictions of those rows: one per seed."""  # [M, K]
        every = np.stack([one[rows] for one in (self.chances, *self.again)])  # [S, M, K]
        there = ~np.isnan(every[..., 0])
        votes = np.eye(every.shape[-1])[np.nan_to_num(every).argmax(axis=-1)] * there[..., None]
        return np.asarray(votes.sum(axis=0) / there.sum(axis=0)[:, None])

    def right(self, rows: Mask, labels: Ints) -> float:
        """Percentage of the rows whose label is predicted."""
        return 100 * float(self.said(rows)[np.arange(int(rows.sum())), labels[rows]].mean())


class Candidates:
    """Makes the candidates one after the other, the cheapest first, while time allows."""

    def __init__(
        self, whole: Dataset, folds: Folds, learners: Mapping[str, Learner], asked: Wanted, wish: Wish, clock: Clock,
        tell: Tell | None = None, labels: Ints | None = None,
    ) -> None:  # fmt: skip
        """labels: what models are judged by, where those of train are known to be wrong in part."""
        train = whole.train
        assert isinstance(train, Batch)
        self.whole, self.train, self.folds, self.learners = whole, train, folds, learners
        self.asked, self.wish, self.clock, self.tell = asked, wish, clock, tell
        self.found: list[Candidate] = []
        self.notes: list[str] = []  # that the time did not suffice
        self.left_out: list[str] = []
        labels = train.labels.numpy() if labels is None else labels
        groups = None if train.groups is None else train.groups.numpy()
        known = bool(whole.group_names) and groups is not None and bool((groups >= 0).any())
        self.rows = Rows(labels, groups if known else None, len(whole.label_names))
        self.counts = self._confusion(labels, np.ones(len(labels), dtype=bool)).sum(axis=-1).astype(float)  # [G, K]

    def run(self) -> None:
        """Plain training by every learner, then the ways of weighing for those that are not far behind."""
        if self.asked.groups_at_prediction and (self.rows.by_label or self.rows.classes != 2):
            raise BadInput(f"{option('groups_at_prediction')} moves thresholds by group: give groups, and two labels.")
        late = ["mlp"] if self.asked.seconds is not None and len(self.learners) > 1 else []  # where time is short
        try:
            for turn in ([name for name in self.learners if name not in late], late):
                for name in turn:
                    self._made("plain", name, Way(), None)
                for name in turn:
                    if name in self.in_reach():
                        self._weighed(name)
        except OutOfTime:
            self.notes.append("The time did not suffice to try every candidate.")
        near = self.in_reach()
        for one in list(self.found):  # second stages: they cost no training
            by_group = self.asked.groups_at_prediction and one.name == "plain" and one.learner in near
            made = stages(one.chances, self.rows, self.wish, self.folds.of, self.folds.used, by_group)
            for name, chances, shift in made:
                title = name if by_group else f"{one.name} + {name}"
                self.found.append(replace(one, name=title, chances=chances, seconds=0.0, shift=shift))

    def in_reach(self) -> list[str]:
        """Learners whose plain training is not far behind the best; the best one first."""
        right = {o.learner: o.right(self.folds.judged, self.rows.labels) for o in self.found if o.name == "plain"}
        allowed = min(self.wish.allowed, 5.0) + BEHIND
        near = [name for name in right if right[name] >= max(right.values()) - allowed]
        return sorted(near, key=lambda name: -right[name])

    def _made(self, name: str, learner: str, way: Way | Mapping[int | None, Way], epoch: int | None) -> Candidate:
        ways = way if isinstance(way, Mapping) else dict.fromkeys((*self.folds.used, None), way)
        dear = ways[None].method == "forml"
        kind = f"{learner}{' forml' if dear else ''}{'' if epoch is None else ' fixed'}"
        times = FORML_COST if dear else FIXED_COST
        began = self.clock.now()
        by_fold = ((fold, ways[fold]) for fold in self.clock.paced(self.folds.used, kind, learner, times))
        chances, kept = cross_fitted(self.learners[learner], self.train, self.folds, by_fold, epoch)
        self.found.append(Candidate(name, learner, ways[None], kept, chances, self.clock.now() - began))
        if self.tell is not None:
            self.tell(self.found[-1].title, len(self.found))
        return self.found[-1]

    def _weighed(self, learner: str) -> None:
        """Each way of weighing; trees keep the number of plain training, a network chooses its epoch anew."""
        plain = next(one for one in self.found if one.name == "plain" and one.learner == learner)
        slow, led = learner == "mlp", learner == self.in_reach()[0]
        epoch = None if slow else plain.epoch
        families, grouped = self.asked.families, not self.rows.by_label
        every = led or not slow  # a network's candidates take minutes: the best learner alone has all
        if {"multipliers", "forml-rates"} & set(families) and every:
            self._rates(plain, epoch, slow)
        if "reweighing" in families and grouped and every:
            for strength in (1.0,) if slow else STRENGTHS:
                self._made(f"reweighing-{strength:g}", learner, Way("reweighing", {"strength": strength}), epoch)
        if "positives" in families and grouped and self.rows.classes == 2 and not slow:
            cells = np.ones_like(self.counts)
            cells[:, 1] = independent(torch.from_numpy(self.counts.T)).numpy()[1, 1:]
            self._made("positives", learner, Way("label-bias", {}, cells), epoch)
        try:
            if "forml-cells" in families and grouped and not slow:
                self._made("forml-cells", learner, Way("label-bias", {}, self._forml_cells()), epoch)
            if "forml" in families and slow:
                for strength in FORML_STRENGTHS if led else FORML_STRENGTHS[:1]:
                    self._made(f"forml-{strength:g}", learner, Way("forml", self._forml(strength)), epoch)
        except OneGroup:
            self.left_out = ["FORML was left out: too few groups have rows of every label to learn from."]

    def _by_cell(self, name: str, learner: str, tables: Tables, epoch: int | None) -> Candidate:
        return self._made(name, learner, {f: Way("label-bias", {}, table) for f, table in tables.items()}, epoch)

    def _rates(self, plain: Candidate, epoch: int | None, slow: bool) -> None:
        """After each training the score of a cell moves by what its rate lacks; then their mean, at several strengths.

        For the rows outside a fold, rates are measured on those rows alone: no fold is judged by weights that it has
        helped to find. One measurement is noisy, which the mean of several is less.
        """
        families, tables = self.asked.families, dict.fromkeys((*self.folds.used, None), np.ones_like(self.counts))
        last, scores = plain, []
        for turn in range(1, (1 if slow else ROUNDS) + 1):
            tables = {fold: self._moved(table, last, fold) for fold, table in tables.items()}
            scores.append({fold: np.log(table) for fold, table in tables.items()})
            last = self._by_cell(f"multipliers-{turn}", plain.learner, tables, epoch)
            if "multipliers" not in families:
                self.found.remove(last)
        scores.append({fold: np.log(self._moved(table, last, fold)) for fold, table in tables.items()})
        if "forml-rates" in families:
            mean = {fold: np.mean([one[fold] for one in scores[1:]], axis=0) for fold in tables}
            for strength in (0.5, 1.0) if slow else RATE_STRENGTHS:
                weights = {fold: self._natural(np.exp(strength * score)) for fold, score in mean.items()}
                self._by_cell(f"forml-rates-{strength:g}", plain.learner, weights, epoch)

    def _confusion(self, said: Ints, there: Mask) -> Any:
        at = self.rows.at(there)
        size = 1 if at.by_label else max(len(self.whole.group_names), int(self.rows.codes.max()) + 1)
        return confusion(at.labels, said[there], at.groups, classes=at.classes, group_count=size)  # [G, K, K]

    def _moved(self, table: Floats, last: Candidate, without: int | None) -> Floats:
        rows = self.folds.judged if without is None else self.folds.judged & (self.folds.of != without)
        counts = self._confusion(np.nan_to_num(last.chances).argmax(axis=1), rows)
        push = self.wish.criterion.pressure(counts, by_label=self.rows.by_label)  # [G, K]
        return self._natural(table * np.exp(np.clip(PULL * push, -2.0, 2.0)))

    def _natural(self, cells: Floats) -> Floats:
        """The table with each label's total weight as it is in the data.

        To raise every positive alike would be class balancing: the gap falls because all rates move together.
        """
        if self.rows.by_label:
            return cells
        total: Floats = (self.counts * cells).sum(axis=0)  # [K]
        return np.asarray(cells * self.counts.sum(axis=0) / np.where(total > 0, total, 1.0))

    def _forml(self, strength: float) -> dict[str, Any]:
        term = "variance" if self.rows.by_label else self.wish.criterion.objective(self.rows.classes)
        return {"objective": f"mean + {strength:g} * {term}"}

    def _forml_cells(self) -> Floats:
        """Mean weight of each cell after one training by FORML on all rows: a handful of numbers."""  # [G, K]
        if not hasattr(self, "_learned"):
            self.clock.check("forml-cells", 1)
            began, first = self.clock.now(), next(iter(self.learners.values()))
            learner = Learner("mlp", self.whole, first.seed, first.device, own=first.own)
            weights = learner.whole(Way("forml", self._forml(FORML_STRENGTHS[0])), 5).weights.double().numpy()
            self.clock.note("forml-cells", self.clock.now() - began)
            known = self.rows.codes >= 0
            flat = (self.rows.codes * self.rows.classes + self.rows.labels)[known]
            total = np.bincount(flat, weights[known], minlength=self.counts.size).reshape(self.counts.shape)
            self._learned = self._natural(np.where(self.counts > 0, total / np.maximum(1, self.counts), 1.0))
        return self._learned


def reference(plain: Sequence[Candidate], rows: Mask, labels: Ints, wish: Wish) -> Candidate:
    """Plain training that is most often right; one that says the same of all rows only if no other is close to it."""
    right = {one.learner: one.right(rows, labels) for one in plain}
    least = max(right.values()) - min(wish.allowed, BUDGET)
    near = [one for one in plain if right[one.learner] >= least and (one.said(rows) > 0).any(axis=0).sum() > 1]
    return max(near or plain, key=lambda one: right[one.learner])


def together(runs: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The first seed's candidates, each with the chances of the further seeds that have it."""
    others = [{one.title: one.chances for one in run} for run in runs[1:]]
    return [replace(one, again=tuple(run[one.title] for run in others if one.title in run)) for one in runs[0]]
