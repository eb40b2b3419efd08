"""Models that could be handed over for a table, each with predictions on rows it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fairweight.apps.judge import BUDGET, Floats, Goal, Ints, Mask, Rows, TrainRequest
from fairweight.apps.second_stage import stages
from fairweight.data import Dataset
from fairweight.errors import BadInput, OneGroup, option
from fairweight.methods.reweighing import independent
from fairweight.metrics.criterion import confusion
from fairweight.runs.clock import Clock, OutOfTime
from fairweight.runs.cross_fit import FOLDS, Folds, cross_fitted
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
    other_seeds: tuple[Floats, ...] = ()  # chances of further seeds

    @property
    def title(self) -> str:
        return f"{self.name} ({self.learner})"

    def votes(self, rows: Mask) -> Floats:
        """Share of each class among the predictions of those rows, one prediction per seed."""  # [M, K]
        chances = np.stack([chances[rows] for chances in (self.chances, *self.other_seeds)])  # [S, M, K]
        predicted = ~np.isnan(chances[..., 0])
        votes = np.eye(chances.shape[-1])[np.nan_to_num(chances).argmax(axis=-1)] * predicted[..., None]
        return np.asarray(votes.sum(axis=0) / predicted.sum(axis=0)[:, None])

    def accuracy(self, rows: Mask, labels: Ints) -> float:
        """Percentage of the rows whose label is predicted."""
        return 100 * float(self.votes(rows)[np.arange(int(rows.sum())), labels[rows]].mean())


class CandidateMaker:
    """Trains the candidates one after the other, the cheapest first, while time allows."""

    def __init__(
        self, whole: Dataset, folds: Folds, learners: Mapping[str, Learner], request: TrainRequest, goal: Goal,
        clock: Clock, tell: Tell | None = None, labels: Ints | None = None,
    ) -> None:  # fmt: skip
        """labels: what models are judged by, where those of train are known to be wrong in part."""
        train = whole.train
        assert isinstance(train, Batch)
        self.whole, self.train, self.folds, self.learners = whole, train, folds, learners
        self.request, self.goal, self.clock, self.tell = request, goal, clock, tell
        self.candidates: list[Candidate] = []
        self.notes: list[str] = []  # says that the time did not suffice
        self.left_out: list[str] = []
        labels = train.labels.numpy() if labels is None else labels
        groups = None if train.groups is None else train.groups.numpy()
        known = bool(whole.group_names) and groups is not None and bool((groups >= 0).any())
        self.rows = Rows(labels, groups if known else None, len(whole.label_names))
        self.counts = self._confusion(labels, np.ones(len(labels), dtype=bool)).sum(axis=-1).astype(float)  # [G, K]

    def run(self) -> None:
        """Plain training by every learner, then the ways of weighing for those that are not far behind."""
        self.goal.criterion.check(groups=not self.rows.by_label)
        if self.request.groups_at_prediction and (self.rows.by_label or self.rows.classes != 2):
            raise BadInput(f"{option('groups_at_prediction')} moves thresholds by group: give groups, and two labels.")
        late = ["mlp"] if self.request.seconds is not None and len(self.learners) > 1 else []  # where time is short
        try:
            for turn in ([name for name in self.learners if name not in late], late):
                for name in turn:
                    self._train("plain", name, Way(), None)
                for name in turn:
                    if name in self.close_learners():
                        self._train_weighted(name)
        except OutOfTime:
            self.notes.append("The time did not suffice to try every candidate.")
        close = self.close_learners()
        for candidate in list(self.candidates):  # second stages: they cost no training
            by_group = self.request.groups_at_prediction and candidate.name == "plain" and candidate.learner in close
            folds = self.folds.of, self.folds.used
            for stage in stages(candidate.chances, self.rows, self.goal, *folds, by_group):
                title = stage.name if by_group else f"{candidate.name} + {stage.name}"
                self.candidates.append(
                    replace(candidate, name=title, chances=stage.chances, shift=stage.shift, seconds=0.0)
                )

    @property
    def plain(self) -> dict[str, Candidate]:
        """Plain training by each learner that has had its turn."""
        return {c.learner: c for c in self.candidates if c.name == "plain"}

    def close_learners(self) -> list[str]:
        """Learners whose plain training is not far behind the best; the best one first."""
        accuracy = {name: c.accuracy(self.folds.judged, self.rows.labels) for name, c in self.plain.items()}
        behind = min(self.goal.allowed, 5.0) + BEHIND
        close = [name for name in accuracy if accuracy[name] >= max(accuracy.values()) - behind]
        return sorted(close, key=lambda name: -accuracy[name])

    def _train(self, name: str, learner: str, way: Way | Mapping[int | None, Way], epoch: int | None) -> Candidate:
        ways = way if isinstance(way, Mapping) else dict.fromkeys((*self.folds.used, None), way)
        slow = ways[None].method == "forml"
        kind = f"{learner}{' forml' if slow else ''}{'' if epoch is None else ' fixed'}"
        times = FORML_COST if slow else FIXED_COST
        began, folds = self.clock.now(), list[int]()

        def in_time() -> Iterator[tuple[int, Way]]:
            for fold in self.clock.paced(self.folds.used, kind, learner, times):
                folds.append(fold)
                yield fold, ways[fold]

        chances, kept_epoch = cross_fitted(self.learners[learner], self.train, self.folds, in_time(), epoch)
        if len(folds) < len(self.folds.used):  # of the first training of all: the others are judged on the same
            self.notes = [f"The time did not suffice to judge on more than {len(folds)} of the {FOLDS} folds."]
            self.folds = replace(self.folds, used=tuple(folds))
        self.candidates.append(Candidate(name, learner, ways[None], kept_epoch, chances, self.clock.now() - began))
        if self.tell is not None:
            self.tell(self.candidates[-1].title, len(self.candidates))
        return self.candidates[-1]

    def _train_weighted(self, learner: str) -> None:
        """Each way of weighing; trees keep the number of plain training, a network chooses its epoch anew."""
        plain, slow, is_best = self.plain[learner], learner == "mlp", learner == self.close_learners()[0]
        epoch = None if slow else plain.epoch
        families, grouped = self.request.families, not self.rows.by_label
        all_ways = is_best or not slow  # a network's candidates take minutes: the best learner alone has all
        if {"multipliers", "forml-rates"} & set(families) and all_ways:
            self._train_by_rates(plain, epoch, slow)
        if "reweighing" in families and grouped and all_ways:
            for strength in (1.0,) if slow else STRENGTHS:
                self._train(f"reweighing-{strength:g}", learner, Way("reweighing", {"strength": strength}), epoch)
        if "positives" in families and grouped and self.rows.classes == 2 and not slow:
            cells = np.ones_like(self.counts)
            cells[:, 1] = independent(torch.from_numpy(self.counts.T)).numpy()[1, 1:]
            self._train("positives", learner, Way("label-bias", {}, cells), epoch)
        try:
            if "forml-cells" in families and grouped and not slow:
                self._train("forml-cells", learner, Way("label-bias", {}, self._forml_cell_weights), epoch)
            if "forml" in families and slow:
                for strength in FORML_STRENGTHS if is_best else FORML_STRENGTHS[:1]:
                    self._train(f"forml-{strength:g}", learner, Way("forml", self._forml_options(strength)), epoch)
        except OneGroup:
            self.left_out = ["FORML was left out: too few groups have rows of every label to learn from."]

    def _train_by_cell(self, name: str, learner: str, tables: Tables, epoch: int | None) -> Candidate:
        return self._train(name, learner, {f: Way("label-bias", {}, table) for f, table in tables.items()}, epoch)

    def _train_by_rates(self, plain: Candidate, epoch: int | None, slow: bool) -> None:
        """After each training the score of a cell moves by what its rate lacks; then their mean, at several strengths.

        For the rows outside a fold, rates are measured on those rows alone: no fold is judged by weights that it has
        helped to find. One measurement is noisy, which the mean of several is less.
        """
        families, tables = self.request.families, dict.fromkeys((*self.folds.used, None), np.ones_like(self.counts))
        last, scores = plain, []
        for turn in range(1, (1 if slow else ROUNDS) + 1):
            tables = {fold: self._moved_by_rates(table, last, fold) for fold, table in tables.items()}
            scores.append({fold: np.log(table) for fold, table in tables.items()})
            last = self._train_by_cell(f"multipliers-{turn}", plain.learner, tables, epoch)
            if "multipliers" not in families:
                self.candidates.remove(last)
        scores.append({fold: np.log(self._moved_by_rates(table, last, fold)) for fold, table in tables.items()})
        if "forml-rates" in families:
            mean = {fold: np.mean([by_fold[fold] for by_fold in scores[1:]], axis=0) for fold in tables}
            for strength in (0.5, 1.0) if slow else RATE_STRENGTHS:
                weights = {fold: self._keep_label_totals(np.exp(strength * score)) for fold, score in mean.items()}
                self._train_by_cell(f"forml-rates-{strength:g}", plain.learner, weights, epoch)

    def _confusion(self, predicted: Ints, where: Mask) -> Any:
        rows = self.rows.at(where)
        size = 1 if rows.by_label else max(len(self.whole.group_names), int(self.rows.codes.max()) + 1)
        return confusion(
            rows.labels, predicted[where], rows.groups, classes=rows.classes, group_count=size
        )  # [G, K, K]

    def _moved_by_rates(self, table: Floats, last: Candidate, without: int | None) -> Floats:
        rows = self.folds.judged if without is None else self.folds.judged & (self.folds.of != without)
        counts = self._confusion(np.nan_to_num(last.chances).argmax(axis=1), rows)
        pressure = self.goal.criterion.pressure(counts, by_label=self.rows.by_label)  # [G, K]
        return self._keep_label_totals(table * np.exp(np.clip(PULL * pressure, -2.0, 2.0)))

    def _keep_label_totals(self, cells: Floats) -> Floats:
        """The table with each label's total weight as it is in the data.

        To raise every positive alike would be class balancing: the gap falls because all rates move together.
        """
        if self.rows.by_label:
            return cells
        total: Floats = (self.counts * cells).sum(axis=0)  # [K]
        return np.asarray(cells * self.counts.sum(axis=0) / np.where(total > 0, total, 1.0))

    def _forml_options(self, strength: float) -> dict[str, Any]:
        term = "variance" if self.rows.by_label else self.goal.criterion.objective(self.rows.classes)
        return {"objective": f"mean + {strength:g} * {term}"}

    @cached_property
    def _forml_cell_weights(self) -> Floats:
        """Mean weight of each cell after one training by FORML on all rows: a handful of numbers."""  # [G, K]
        self.clock.check("forml-cells", 1)
        began, first = self.clock.now(), next(iter(self.learners.values()))
        learner = Learner("mlp", self.whole, first.seed, first.device, row_weights=first.row_weights)
        weights = learner.whole(Way("forml", self._forml_options(FORML_STRENGTHS[0])), 5).weights.double().numpy()
        self.clock.note("forml-cells", self.clock.now() - began)
        known = self.rows.codes >= 0
        flat = (self.rows.codes * self.rows.classes + self.rows.labels)[known]
        total = np.bincount(flat, weights[known], minlength=self.counts.size).reshape(self.counts.shape)
        return self._keep_label_totals(np.where(self.counts > 0, total / np.maximum(1, self.counts), 1.0))


def reference(plain: Sequence[Candidate], rows: Mask, labels: Ints, goal: Goal) -> Candidate:
    """Plain training that is most often right; one that predicts one label for all rows only if no other is close."""
    accuracy = {c.learner: c.accuracy(rows, labels) for c in plain}
    least = max(accuracy.values()) - min(goal.allowed, BUDGET)
    close = [c for c in plain if accuracy[c.learner] >= least and (c.votes(rows) > 0).any(axis=0).sum() > 1]
    return max(close or plain, key=lambda c: accuracy[c.learner])


def together(runs: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The first seed's candidates, each with the chances of the further seeds that have it."""
    others = [{c.title: c.chances for c in run} for run in runs[1:]]
    return [replace(c, other_seeds=tuple(run[c.title] for run in others if c.title in run)) for c in runs[0]]
