"""How often each (group, label, prediction) occurs, and the bootstrap over these counts."""

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

    groups: Ints  # [M]
    labels: Ints  # [M]
    predictions: tuple[Ints, ...]  # [M] each
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
        group, label, *predicted = np.unravel_index(key, shape)
        targets = np.arange(K) if samples.positive is None else np.array([samples.positive])
        return cls(group, label, tuple(predicted), frequency, (shape[0], K), targets, samples.groups is None)

    def counts(self, frequency: Amounts | None = None, model: int = 0) -> Counts:
        """Counts of one model's predictions, under the frequencies [..., M] given or its own."""
        frequency = self.frequency if frequency is None else frequency
        predictions = self.predictions[model]
        right = predictions == self.labels
        return Counts(
            _sum_by(self.groups, self.labels, frequency, self.shape),
            _sum_by(self.groups[right], self.labels[right], frequency[..., right], self.shape),
            _sum_by(self.groups, predictions, frequency, self.shape),
            self.targets,
            self.by_label,
        )

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
        tally = replace(
            self,
            groups=np.concatenate([self.groups, *[group] * len(patterns)]),
            labels=np.concatenate([self.labels, *[label] * len(patterns)]),
            predictions=tuple(
                np.concatenate([own, *(label if pattern[model] else wrong for pattern in patterns)])
                for model, own in enumerate(self.predictions)
            ),
            frequency=np.concatenate([self.frequency, np.zeros(added, dtype=np.int64)]),
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


def _sum_by(groups: Ints, labels: Ints, values: Amounts, shape: tuple[int, int]) -> Amounts:
    """Sum the values [..., M] by group and label: [..., G, K]."""
    G, K = shape
    key = groups * K + labels
    total = np.zeros((*values.shape[:-1], G * K), dtype=values.dtype)
    if len(key):
        order = np.argsort(key, kind="stable")
        present, starts = np.unique(key[order], return_index=True)
        total[..., present] = np.add.reduceat(values[..., order], starts, axis=-1)
    return total.reshape(*values.shape[:-1], G, K)


def _resampled(tally: Tally, weight: Floats, strata: Strata, settings: Intervals) -> Iterator[Ints]:
    """Frequencies of resampled samples, a chunk of draws [D, M] at a time: multinomial within each stratum."""
    rng, draws = np.random.default_rng(settings.seed), settings.draws
    cell = tally.groups * tally.shape[1] + tally.labels
    stratum = {"all": np.zeros_like(cell), "group": tally.groups, "cell": cell}[strata]
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
) -> tuple[Floats, Floats]:
    """The statistic of the models' counts when samples are redrawn [draws, ...], and of what is drawn from [...]."""
    drawn_from, weight = tally.smoothed()
    models = range(len(tally.predictions))
    parts = [
        statistic(tuple(drawn_from.counts(frequency, model) for model in models))
        for frequency in _resampled(drawn_from, weight, strata, settings)
    ]
    centre = statistic(tuple(drawn_from.counts(weight, model) for model in models))
    return np.concatenate(parts), centre
