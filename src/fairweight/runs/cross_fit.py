"""Predictions of each row by a model that was not trained on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairweight.data import Dataset
from fairweight.data.draw import stream
from fairweight.runs.held_out import trusts_exemplars
from fairweight.runs.learners import Learner, Way
from fairweight.sampling import Cells
from fairweight.types import Batch, side_by_side

FOLDS = 5
MANY = 60_000  # rows from which two of the folds are enough to judge on
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Folds:
    """Each row's fold, and the folds that are predicted."""

    of: npt.NDArray[np.int64]  # [N]
    used: tuple[int, ...]

    @property
    def judged(self) -> npt.NDArray[np.bool_]:
        """Rows that are predicted."""  # [N]
        return np.isin(self.of, self.used)


def folds_for(train: Batch, seed: int) -> Folds:
    """Deal the rows of each cell out to the folds, seeded."""
    strata = Cells.of(train.labels, train.groups).index + 1
    order = torch.randperm(len(train), generator=stream(seed, "judge", "folds"))
    order = order[strata[order].argsort(stable=True)]  # by cell, in a drawn order within each
    of = torch.empty(len(train), dtype=torch.int64)
    of[order] = torch.arange(len(train)) % FOLDS
    return Folds(of.numpy(), tuple(range(FOLDS)) if len(train) <= MANY else (0, 1))


def cross_fitted(
    learner: Learner, train: Batch, folds: Folds, ways: Iterable[tuple[int, Way]], epoch: int | None
) -> tuple[Floats, int]:
    """Probabilities of every judged row [N, K] (NaN elsewhere), and the epoch that was kept.

    ways: each fold, and how the rows outside it are weighed. epoch: None chooses the one with the lowest mean loss.
    """
    chances = np.full((len(train), len(learner.dataset.label_names)), np.nan)
    parts = []  # of each fold its rows, their chances and losses by epoch, and the last epoch
    for fold, way in ways:
        inside_fold = folds.of == fold
        inside, outside = (train.take(torch.from_numpy(np.nonzero(mask)[0])) for mask in (inside_fold, ~inside_fold))
        parts.append((inside_fold, *learner.held_out(outside, inside, way, epoch)))
    losses = np.sum([loss for _, _, loss, _ in parts], axis=0)  # [E]
    best = int(np.argmin(losses))
    for inside_fold, chances_by_epoch, _, _ in parts:
        chances[inside_fold] = chances_by_epoch[best]
    return chances, best + 1 if len(losses) > 1 else max(1, int(np.median([last for *_, last in parts])))


def all_rows(dataset: Dataset) -> Dataset:
    """The data with every row that is not for test in train; parts that came from files of their own stay as they are.

    Exemplars are then the training rows, unless they have a file of their own or are trusted: those stay apart, or
    nothing would tell which labels of train are wrong.
    """
    content = dataset.spec.get("content", {})
    exemplar = dict(dataset.spec.get("options", {})).get("exemplar") or {}
    source = exemplar.get("source", "train")
    drawn = "exemplar" not in content and source in ("train", "validation")
    drawn = drawn and not trusts_exemplars({**dataset.spec, "notes": dataset.notes})
    parts = ["train"]
    if dataset.validation is not None and "validation" not in content:
        parts.append("validation")
    if drawn and source == "train" and not exemplar.get("inside", False):
        parts.append("exemplar")
    held = [replace(getattr(dataset, name), rows=None, shares=None) for name in parts]
    rows = torch.cat([dataset.rows[name] for name in parts])
    order = rows.argsort()
    whole = replace(side_by_side(held).take(order), rows=None)
    true = dataset.true_labels
    if true is not None:
        true = torch.cat([true, *(part.labels for part in held[1:])])[order]
    return replace(
        dataset,
        train=whole,
        validation=None if "validation" in parts else dataset.validation,
        exemplar=whole if drawn else dataset.exemplar,
        rows={**dataset.rows, "train": rows[order]},
        true_labels=true,
    )


def without_zero_weights(whole: Dataset, weights: Tensor) -> Dataset:
    """The data without training rows that count nothing; weights: by row of the source."""
    assert isinstance(whole.train, Batch)
    rows = whole.rows["train"]
    counted = weights[rows] > 0
    train = replace(whole.train.take(counted), rows=None)
    return replace(
        whole,
        train=train,
        exemplar=train if whole.exemplar is whole.train else whole.exemplar,
        rows={**whole.rows, "train": rows[counted]},
        true_labels=None if whole.true_labels is None else whole.true_labels[counted],
    )
