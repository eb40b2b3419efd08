"""How often each (group, label, prediction) occurs, and the bootstrap over these counts or over samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from fairweight.metrics._samples import CodedSamples, Ints
from fairweight.metrics.rates import Amounts, Counts, Floats, Strata

if TYPE_CHECKING:
    from fairweight.metrics.intervals import Intervals

_CHUNK = 10_000_000  # numbers held at a time while resampling


@dataclass(frozen=True)
class Tally:
    """The M distinct (group, label, predictions) with their frequency; several models may predict side by side."""

    members: Ints  # [2 + models, M] group, label, prediction of each model
    frequency: Ints  # [M]
    shape: tuple[int, int]  # G, K
    targets: Ints  # as in Counts
    by_label: bool

    @classmethod
    def of(cls, samples: CodedSamples, *predictions: Ints) -> Tally:
        """Count the samples with the predictions of some models; without groups all are in one."""
        K = len(samples.label_axis)
        groups = np.zeros_like(samples.labels) if samples.groups is None else samples.groups
        shape = (1 if samples.groups is None else len(samples.group_axis), *[K] * (1 + len(predictions)))
        key = np.ravel_multi_index((groups, samples.labels, *predictions), shape)
        key, frequency = np.unique(key, return_counts=True)
        targets = np.arange(K) if samples.positive is None else np.array([samples.positive])
        members = np.stack(np.unravel_index(key, shape))
        return cls(members, frequency, (shape[0], K), targets, samples.groups is None)

    @property
    def models(self) -> int:
        return len(self.members) - 2

    @property
    def cells(self) -> Ints:
        """The number of each one's (group, label)."""  # [M]
        cells: Ints = self.members[0] * self.shape[1] + self.members[1]
        return cells

    def counts(self, frequency: Amounts | None = None, model: int = 0) -> Counts:
        """Counts of one model's predictions, under the frequencies [..., M] given or its own."""
        frequency = self.frequency if frequency is None else frequency
        cells, predictions = self.cells, self.members[2 + model]
        right = predictions == self.members[1]
        return Counts(
            self._sum(cells, frequency),
            self._sum(cells[right], frequency[..., right]),
            self._sum(self.members[0] * self.shape[1] + predictions, frequency),
            self.targets,
            self.by_label,
        )

    def _sum(self, key: Ints, values: Amounts) -> Amounts:
        """Sum the values [..., M] by group and label: [..., G, K]."""
        G, K = self.shape
        total = np.zeros((*values.shape[:-1], G * K), dtype=values.dtype)
        if len(key):
            order = np.argsort(key, kind="stable")
            present, starts = np.unique(key[order], return_index=True)
            total[..., present] = np.add.reduceat(values[..., order], starts, axis=-1)
        return total.reshape(*values.shape[:-1], G, K)

    def smoothed(self) -> tuple[Tally, Floats]:
        """The tally and its frequencies with one right and one wrong sample per model added to every cell.

        Resampling five samples that are all right would never see an error; this lets it (Agresti & Caffo 2000;
        for two models side by side, half a sample for each pattern of right and wrong: Agresti & Min 2005).
        """
        K = self.shape[1]
        if K == 1:
            return self, self.frequency.astype(np.float64)
        groups, labels = np.divmod(np.unique(self.cells), K)
        wrong = self._usual_mistake()[labels]
        patterns = [right[::-1] for right in product((False, True), repeat=self.models)]  # by model
        added = [np.stack([groups, labels, *(labels if right else wrong for right in pattern)]) for pattern in patterns]
        members = np.concatenate([self.members, *added], axis=1)
        padding = (0, len(patterns) * len(labels))
        share = 2.0 / len(patterns)  # one right and one wrong per model in all
        weight = np.pad(self.frequency.astype(np.float64), padding, constant_values=share)
        return replace(self, members=members, frequency=np.pad(self.frequency, padding)), weight

    def _usual_mistake(self) -> Ints:
        """For every label [K], the other label that it is most often taken for."""
        K = self.shape[1]
        mistakes = np.zeros((K, K))
        for prediction in self.members[2:]:
            np.add.at(mistakes, (self.members[1], prediction), self.frequency)
        mistakes[np.arange(K), (np.arange(K) + 1) % K] += 0.5  # where it never is: the next one
        np.fill_diagonal(mistakes, -1.0)
        usual: Ints = mistakes.argmax(axis=1).astype(np.int64)
        return usual


def _resampled(tally: Tally, weight: Floats, strata: Strata, settings: Intervals) -> Iterator[Ints]:
    """Frequencies of resampled samples, a chunk of draws [D, M] at a time: multinomial within each stratum."""
    rng, draws = np.random.default_rng(settings.seed), settings.draws
    stratum = {"all": np.zeros_like(tally.frequency), "group": tally.members[0], "cell": tally.cells}[strata]
    order = np.argsort(stratum, kind="stable")
    edges = [*np.unique(stratum[order], return_index=True)[1].tolist(), len(order)]
    strata_members = [order[start:stop] for start, stop in pairwise(edges)]
    chunk = max(1, _CHUNK // (len(order) + 4 * tally.shape[0] * tally.shape[1]))
    for start in range(0, max(1, draws), chunk):  # no draws: one chunk of none, so that shapes hold
        size = min(chunk, draws - start)
        drawn = np.empty((size, len(order)), dtype=np.int64)
        for members in strata_members:
            share = weight[members] / weight[members].sum()
            drawn[:, members] = rng.multinomial(tally.frequency[members].sum(), share, size=size)
        yield drawn


def bootstrap(
    tally: Tally, statistic: Callable[[tuple[Counts, ...]], Floats], settings: Intervals, strata: Strata
) -> tuple[Floats, Floats]:
    """The statistic of the models' counts when samples are redrawn [draws, ...], and of what is drawn from [...]."""
    drawn_from, weight = tally.smoothed()

    def of_frequency(frequency: Amounts) -> Floats:
        return statistic(tuple(drawn_from.counts(frequency, model) for model in range(tally.models)))

    draws = [of_frequency(frequency) for frequency in _resampled(drawn_from, weight, strata, settings)]
    return np.concatenate(draws), of_frequency(weight)


class StratifiedDraw:
    """Samples drawn with replacement, as many of each stratum as there are."""

    def __init__(self, strata: Ints) -> None:
        self.order = np.argsort(strata, kind="stable")  # [N] members of a stratum side by side
        _, first, sizes = np.unique(strata[self.order], return_index=True, return_counts=True)
        self._first, self._size = np.repeat(first, sizes), np.repeat(sizes, sizes)

    def drawn(self, random: np.random.Generator) -> Ints:
        """Places in that order."""  # [N]
        return np.asarray(self._first + (random.random(len(self.order)) * self._size).astype(np.int64))
