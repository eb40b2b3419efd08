"""Models that could be handed over for a table, each with predictions on rows it was not trained on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fairweight.apps.judge import Asked, Clock, OutOfTime, Rows
from fairweight.apps.second_stage import even_recalls, moved, thresholds
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.methods.reweighing import independent
from fairweight.metrics.criterion import confusion
from fairweight.runs.cross_fit import Folds, cross_fitted
from fairweight.runs.learners import Learner, Way
from fairweight.types import Batch

STRENGTHS = (0.5, 1.0, 2.0)  # of reweighing
ROUNDS = 3  # of multipliers
RATE_STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # of the averaged scores: what closes half the gap is sure sooner
BIASES = (0.25, 0.5, 1.0)  # of the biases that even out the classes' recalls
PULL = 5.0  # of a rate on its cell's score
FORML_STRENGTHS = (0.3, 1.0)
BEHIND = 0.5  # points of accuracy beyond the budget by which a learner's plain training may be behind the best
Floats = npt.NDArray[np.float64]
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

    def said(self, rows: npt.NDArray[np.bool_]) -> Floats:
        """Share of each class among the predictions of those rows: one per seed."""  # [M, K]
        every = np.stack([one[rows] for one in (self.chances, *self.again)])  # [S, M, K]
        there = ~np.isnan(every[..., 0])
        votes = np.eye(every.shape[-1])[np.nan_to_num(every).argmax(axis=-1)] * there[..., None]
        return np.asarray(votes.sum(axis=0) / there.sum(axis=0)[:, None])

    def right(self, rows: npt.NDArray[np.bool_], labels: npt.NDArray[Any]) -> float:
        """Percentage of the rows whose label is predicted."""
        return 100 * float(self.said(rows)[np.arange(int(rows.sum())), labels[rows]].mean())


class Candidates:
    """Makes the candidates one after the other, the cheapest first, while time allows."""

    def __init__(
        self,
        whole: Dataset,
        folds: Folds,
        learners: Mapping[str, Learner],
        asked: Asked,
        clock: Clock,
        tell: Tell | None = None,
    ) -> None:
        train = whole.train
        assert isinstance(train, Batch)
        self.whole, self.train, self.folds, self.learners, self.asked = whole, train, folds, learners, asked
        self.clock, self.tell = clock, tell
        self.found: list[Candidate] = []
        self.notes: list[str] = []
        self.classes = len(whole.label_names)
        self.labels = train.labels.numpy()
        known = bool(whole.group_names) and train.groups is not None and bool((train.groups >= 0).any())
        self.groups = train.groups.numpy() if known and train.groups is not None else None
        groups = np.zeros_like(self.labels) if self.groups is None else self.groups
        size = 1 if self.groups is None else max(len(whole.group_names), int(groups.max()) + 1)
        there = groups >= 0
        flat = (groups * self.classes + self.labels)[there]
        self.counts = np.bincount(flat, minlength=size * self.classes).reshape(size, self.classes).astype(float)

    @property
    def by_label(self) -> bool:
        """True if the label stands for the group."""
        return self.groups is None

    def run(self) -> None:
        """Plain training by every learner, then the ways of weighing for those that are not far behind."""
        try:
            late = "mlp" in self.learners and self.asked.seconds is not None and len(self.learners) > 1
            for name in [n for n in self.learners if not (late and n == "mlp")]:
                self._plain(name)
            for name in self.in_reach():
                self._weighed(name)
            if late:  # where time is short
                self._plain("mlp")
                if "mlp" in self.in_reach():
                    self._weighed("mlp")
        except OutOfTime:
            self.notes.append("The time was spent before every candidate was trained.")
        if self.classes > 2 and (self.by_label or self.asked.wish.criterion.every_label):
            self._class_biases()
        if self.asked.groups_at_prediction:
            self._thresholds()

    def best_plain(self) -> Candidate:
        """Plain training by the learner that is most often right; the cheaper of two alike."""
        plain = [one for one in self.found if one.name == "plain"]
        return max(plain, key=lambda one: one.right(self.folds.judged, self.labels))

    def in_reach(self) -> list[str]:
        """Learners whose plain training is not far behind the best."""
        right = {one.learner: one.right(self.folds.judged, self.labels) for one in self.found if one.name == "plain"}
        allowed = min(self.asked.wish.allowed, 5.0) + BEHIND
        return [name for name in right if right[name] >= max(right.values()) - allowed]

    def _plain(self, learner: str) -> Candidate:
        return self._made("plain", learner, lambda fold: Way(), None)

    def _made(self, name: str, learner: str, way_of: Callable[[int | None], Way], epoch: int | None) -> Candidate:
        self.clock.check(learner)
        began = time.monotonic()
        chances, kept = cross_fitted(self.learners[learner], self.train, self.folds, way_of, epoch)
        took = time.monotonic() - began
        self.clock.took[learner] = max(took, self.clock.took.get(learner, 0.0))
        self.found.append(Candidate(name, learner, way_of(None), kept, chances, took))
        if self.tell is not None:
            self.tell(self.found[-1].title, len(self.found))
        return self.found[-1]

    def _weighed(self, learner: str) -> None:
        """Each way of weighing; trees keep the number of plain training, a network chooses its epoch anew."""
        plain = next(one for one in self.found if one.name == "plain" and one.learner == learner)
        slow = learner == "mlp"
        epoch = None if slow else plain.epoch
        families = self.asked.families
        led = plain is self.best_plain()  # a network's candidates take minutes: the best learner alone has all
        if {"multipliers", "forml-rates"} & set(families) and (led or not slow):
            self._rates(plain, epoch, slow)
        if "reweighing" in families and not self.by_label and (led or not slow):
            for strength in (1.0,) if slow else STRENGTHS:
                way = Way("reweighing", {"strength": strength})
                self._made(f"reweighing-{strength:g}", learner, lambda fold, way=way: way, epoch)  # type: ignore[misc]
        if "positives" in families and not self.by_label and self.classes == 2 and not slow:
            cells = np.ones_like(self.counts)
            cells[:, 1] = independent(torch.from_numpy(self.counts.T)).numpy()[1, 1:]
            self._by_cell("positives", learner, cells, epoch)
        if "forml-cells" in families and not self.by_label and not slow:
            self._by_cell("forml-cells", learner, self._forml_cells(), epoch)
        if "forml" in families and slow:
            for strength in FORML_STRENGTHS if led else FORML_STRENGTHS[:1]:
                way = Way("forml", self._forml(strength))
                self._made(f"forml-{strength:g}", learner, lambda fold, way=way: way, epoch)  # type: ignore[misc]

    def _by_cell(self, name: str, learner: str, cells: Floats | Tables, epoch: int | None) -> Candidate:
        tables = cells if isinstance(cells, Mapping) else dict.fromkeys((*self.folds.used, None), cells)
        ways = {fold: Way("label-bias", {}, table) for fold, table in tables.items()}
        return self._made(name, learner, ways.__getitem__, epoch)

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

    def _moved(self, table: Floats, last: Candidate, without: int | None) -> Floats:
        rows = self.folds.judged if without is None else self.folds.judged & (self.folds.of != without)
        counts = confusion(
            self.labels[rows],
            last.chances[rows].argmax(axis=1),
            None if self.groups is None else self.groups[rows],
            classes=self.classes,
            group_count=len(self.counts),
        )
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
        term = "variance" if self.by_label else self.asked.wish.criterion.objective(self.classes)
        return {"objective": f"mean + {strength:g} * {term}"}

    def _forml_cells(self) -> Floats:
        """Mean weight of each cell after one training by FORML on all rows: a handful of numbers."""  # [G, K]
        if not hasattr(self, "_learned"):
            self.clock.check("forml")
            began = time.monotonic()
            any_learner = next(iter(self.learners.values()))
            learner = Learner("mlp", self.whole, any_learner.seed, any_learner.device)
            weights = learner.whole(Way("forml", self._forml(FORML_STRENGTHS[0])), 5).weights.double().numpy()
            self.clock.took["forml"] = time.monotonic() - began
            assert self.groups is not None
            known = self.groups >= 0
            flat = (self.groups * self.classes + self.labels)[known]
            total = np.bincount(flat, weights[known], minlength=self.counts.size).reshape(self.counts.shape)
            self._learned = self._natural(np.where(self.counts > 0, total / np.maximum(1, self.counts), 1.0))
        return self._learned

    # -- second stages: they cost no training -------------------------------------------------------

    def _class_biases(self) -> None:
        """A bias per class, on plain training and on each other candidate, at several strengths."""
        for one in list(self.found):
            found = {f: even_recalls(one.chances[r], self._rows(r), self.asked.wish) for f, r in self._outside()}
            for strength in BIASES:
                self._staged(one, f"{one.name} + bias-{strength:g}", {f: strength * up for f, up in found.items()})

    def _thresholds(self) -> None:
        """Thresholds by group on plain training by each learner in reach."""
        if self.groups is None or self.classes != 2:
            raise BadInput(f"{option('groups_at_prediction')} moves thresholds by group: give groups, and two labels.")
        wish, near = self.asked.wish, self.in_reach()
        # What spends the whole budget on the rows it was found on spends more on others: half of it is tried as well.
        half = replace(wish, budget=wish.allowed / 2) if np.isfinite(wish.allowed) else wish
        for one in [one for one in self.found if one.name == "plain" and one.learner in near]:
            for name, aim in (("thresholds", wish), ("thresholds-half", half)):
                found = {
                    f: thresholds(one.chances[r], self._rows(r), aim, len(self.counts)) for f, r in self._outside()
                }
                self._staged(one, name, found)

    def _outside(self) -> list[tuple[int | None, npt.NDArray[np.bool_]]]:
        """For each fold the rows that were predicted and lie outside it; None: all of them."""
        known = self.folds.judged & (True if self.groups is None else self.groups >= 0)
        return [*((fold, known & (self.folds.of != fold)) for fold in self.folds.used), (None, known)]

    def _rows(self, there: npt.NDArray[np.bool_]) -> Rows:
        return Rows(self.labels[there], None if self.groups is None else self.groups[there], self.classes)

    def _staged(self, one: Candidate, name: str, shifts: Tables) -> None:
        """Add the candidate with another decision; each fold by a shift that was found without it."""
        chances = one.chances.copy()
        for fold in self.folds.used:
            inside = self.folds.of == fold
            chances[inside] = moved(
                one.chances[inside], None if self.groups is None else self.groups[inside], shifts[fold]
            )
        self.found.append(replace(one, name=name, chances=chances, seconds=0.0, shift=shifts[None]))


def together(runs: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The first seed's candidates, each with the chances of the further seeds that have it."""
    others = [{one.title: one.chances for one in run} for run in runs[1:]]
    return [replace(one, again=tuple(run[one.title] for run in others if one.title in run)) for one in runs[0]]
