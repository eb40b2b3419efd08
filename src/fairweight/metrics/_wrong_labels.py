"""What was found of wrong labels: which they are, and how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairweight.constraints import plain_seed
from fairweight.metrics._samples import Ints
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import Floats

WIDER = 1.5  # no interval sees how far the model is off; chosen on the sets that benchmarks/arena.py names


@dataclass(frozen=True)
class LabelNoise:
    """Which labels are probably wrong, and how many."""

    labels: Ints  # [N] as given
    groups: Ints  # [N]
    posterior: Floats  # [N, K] chances of the true label
    wrong: Floats  # [N] posterior that the label is wrong
    suggested: Ints  # [N] most probable label; the given one where it stands
    by_inputs: Ints  # [N] label that the inputs alone speak for
    rates: Floats  # [G, K, K] how often a true label (row) of a group is given as another (column)
    shares: Floats  # [G, K] of true labels
    drawn: Floats  # [D, G, K] how many of each cell are wrong, over resampled rows or drawn from the posterior
    by_chance: Floats  # [D, G, K] the same where no label is wrong; none of these where the posterior knows it

    @property
    def looks_wrong(self) -> npt.NDArray[np.bool_]:
        """Another label is more probable than the given one."""  # [N]
        return np.asarray(self.suggested != self.labels)

    @property
    def is_hard(self) -> npt.NDArray[np.bool_]:
        """The input speaks for another label, and the given one is more probable."""  # [N]
        return np.asarray((self.by_inputs != self.labels) & (self.suggested == self.labels))

    def count(self, label: int | None = None, group: int | None = None, level: float = 0.95) -> Estimate:
        """How many labels are wrong, of all, of a given label or of a group, with an interval.

        The interval reaches 0 where data without a wrong label would often show as many.
        """
        chosen = np.zeros(self.shares.shape, dtype=bool)
        chosen[slice(None) if group is None else group, slice(None) if label is None else label] = True
        inside = chosen[self.groups, self.labels]
        value, n = float(self.wrong[inside].sum()), int(inside.sum())
        drawn, chance = (part[:, chosen].sum(axis=1) for part in (self.drawn, self.by_chance))
        raw, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        low, high = (value + WIDER * (limit - value) for limit in (min(raw, value), max(high, value)))
        if not len(chance):  # the posterior knows where none may be wrong
            low = value * (min(raw, value) / max(value, 1e-12)) ** WIDER
        elif value <= WIDER * np.quantile(chance, level):
            low = 0.0
        return Estimate(value, max(float(low), 0.0), min(float(high), float(n)), n)

    def likely_labels(self, seed: int = 0) -> Ints:
        """A label for each row, drawn by its chances: rates of a model on them are right on average."""  # [N]
        return drawn_labels(self.posterior, np.random.default_rng(plain_seed(seed)))


def drawn_labels(chances: Floats, random: np.random.Generator) -> Ints:
    """A label for each row, drawn by its chances [N, K]."""  # [N]
    line = random.random((len(chances), 1))
    return np.asarray((chances.cumsum(axis=1) < line).sum(axis=1).clip(max=chances.shape[1] - 1))
