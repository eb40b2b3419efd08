"""How often each (group, label, prediction) occurs, and the bootstrap over these counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.metrics._samples import Ints

if TYPE_CHECKING:
    from fairweight.metrics.intervals import Intervals

Floats: TypeAlias = npt.NDArray[np.float64]
Amounts: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"  # fractions of samples, where smoothed
# What a draw keeps as it is: the number of samples, of samples in each group, or in each label x group.
Strata: TypeAlias = Literal["all", "group", "cell"]
_CHUNK = 10_000_000  # numbers held at a time while resampling


@dataclass(frozen=True)
class Counts:
    """All that the rates need, by group and label; draws may stand before."""

    samples: Amounts  # [..., G, K] of this label
    correct: Amounts  # [..., G, K] of this label and predicted so
    predicted: Amounts  # [..., G, K] predicted as this label

    def map(self, change: Callable[[Amounts], Amounts]) -> Counts:
        """The same change of all three."""
        return Counts(change(self.samples), change(self.correct), change(self.predicted))

    def pooled(self) -> Counts:
        """All groups as one."""
        return self.map(lambda part: part.sum(axis=-2, keepdims=True))


@dataclass(frozen=True)
class Tally:
    """The M distinct (group, label, predictions) with their frequency; several models may predict side by side."""

    groups: Ints  # [M]
    labels: Ints  # [M]
    predictions: tuple[Ints, ...]  # [M] each
    frequency: Ints  # [M]
    shape: tuple[int, int]  # G, K

    @classmethod
    def of(cls, groups: Ints | None, labels: Ints, predictions: tuple[Ints, ...], shape: tuple[int, int]) -> Tally:
        """Count the samples; without groups all are in one."""
        K = shape[1]
        key = labels.copy() if groups is None else groups * K + labels
        for prediction in predictions:
            key = key * K + prediction
        key, frequency = np.unique(key, return_counts=True)
        parts = []
        for _ in predictions:
            key, part = np.divmod(key, K)
            parts.append(part)
        group, label = np.divmod(key, K)
        return cls(group, label, tuple(reversed(parts)), frequency, shape)

    def counts(self, frequency: Amounts | None = None, model: int = 0) -> Counts:
        """Counts of one model's predictions, under the frequencies [..., M] given or its own."""
        frequency = self.frequency if frequency is None else frequency
        G, K = self.shape
        cell = self.groups * K + self.labels
        right = self.predictions[model] == self.labels
        counts = Counts(
            _sum_by(cell, frequency, G * K),
            _sum_by(cell[right], frequency[..., right], G * K),
            _sum_by(self.groups * K + self.predictions[model], frequency, G * K),
        )
        return counts.map(lambda part: part.reshape(*part.shape[:-1], G, K))

    def smoothed(self) -> tuple[Tally, Floats]:
        """The tally and its frequencies with one right and one wrong sample per model added to every cell.

        Resampling five samples that are all right would never see an error; this lets it (Agresti & Caffo 2000;
        for two models side by side, half a sample for each pattern of right and wrong: Agresti & Min 2005).
        """
        K = self.shape[1]
        if K == 1:
            return self, self.frequency.astype(np.float64)
        group, label = np.divmod(np.unique(self.groups * K + self.labels), K)
        wrong = self._usual_mistake()[label]
        patterns = [right[::-1] for right in product((False, True), repeat=len(self.predictions))]  # by model
        added = len(patterns) * len(label)
        tally = Tally(
            np.concatenate([self.groups, *[group] * len(patterns)]),
            np.concatenate([self.labels, *[label] * len(patterns)]),
            tuple(
                np.concatenate([own, *(label if pattern[model] else wrong for pattern in patterns)])
                for model, own in enumerate(self.predictions)
            ),
            np.concatenate([self.frequency, np.zeros(added, dtype=np.int64)]),
            self.shape,
        )
        share = 2.0 / len(patterns)  # one right and one wrong per model in all
        return tally, np.concatenate([self.frequency.astype(np.float64), np.full(added, share)])

    def _usual_mistake(self) -> Ints:
        """For every label [K], the other label that it is most often taken for."""
        K = self.shape[1]
        mistakes = np.zeros((K, K))
        for prediction in self.predictions:
            np.add.at(mistakes, (self.labels, prediction), self.frequency)
        mistakes[np.arange(K), (np.arange(K) + 1) % K] += 0.5  # where it never is: the next one
        np.fill_diagonal(mistakes, -1.0)
        usual: Ints = mistakes.argmax(axis=1).astype(np.int64)
        return usual

    def _stratum(self, strata: Strata) -> Ints:
        if strata == "all":
            return np.zeros(len(self.groups), dtype=np.int64)
        return self.groups if strata == "group" else self.groups * self.shape[1] + self.labels


def _sum_by(key: Ints, values: Amounts, size: int) -> Amounts:
    """Sum the values [..., M] that share a key [M]: [..., size]."""
    total = np.zeros((*values.shape[:-1], size), dtype=values.dtype)
    if len(key):
        order = np.argsort(key, kind="stable")
        present, starts = np.unique(key[order], return_index=True)
        total[..., present] = np.add.reduceat(values[..., order], starts, axis=-1)
    return total


def _resampled(tally: Tally, weight: Floats, strata: Strata, settings: Intervals) -> Iterator[Ints]:
    """Frequencies of resampled samples, a chunk of draws [D, M] at a time: multinomial within each stratum."""
    rng, draws = np.random.default_rng(settings.seed), settings.draws
    stratum = tally._stratum(strata)
    order = np.argsort(stratum, kind="stable")
    edges = [*np.unique(stratum[order], return_index=True)[1].tolist(), len(order)]
    blocks = [order[start:stop] for start, stop in pairwise(edges)]
    chunk = max(1, _CHUNK // (len(order) + 4 * tally.shape[0] * tally.shape[1]))
    for start in range(0, max(1, draws), chunk):  # no draws: one chunk of none, so that shapes hold
        size = min(chunk, draws - start)
        drawn = np.empty((size, len(order)), dtype=np.int64)
        for block in blocks:
            share = weight[block] / weight[block].sum()
            drawn[:, block] = rng.multinomial(tally.frequency[block].sum(), share, size=size)
        yield drawn


def bootstrap(
    tally: Tally,
    statistic: Callable[[tuple[Counts, ...]], Floats],
    settings: Intervals,
    strata: Strata,
    *,
    smooth: bool,
) -> tuple[Floats, Floats]:
    """The statistic of the models' counts when samples are redrawn [draws, ...], and of what is drawn from [...]."""
    drawn_from, weight = tally.smoothed() if smooth else (tally, tally.frequency.astype(np.float64))
    models = range(len(tally.predictions))
    parts = [
        statistic(tuple(drawn_from.counts(frequency, model) for model in models))
        for frequency in _resampled(drawn_from, weight, strata, settings)
    ]
    centre = statistic(tuple(drawn_from.counts(weight, model) for model in models))
    return np.concatenate(parts), centre
