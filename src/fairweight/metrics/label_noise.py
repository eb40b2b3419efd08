"""How many labels are wrong, and which: flip rates per (label, group), estimated beside rows that are trusted.

A model's logits say which label an input looks like; best, a model that was not trained on the row. On trusted rows,
whose labels are right, that opinion is calibrated: what it is worth as evidence, log p(x | label) up to a constant.
EM on the other rows then finds, for each group, how common each true label is and how often it was written down as
another one. Rates that differ by no more than chance explains are drawn together (empirical Bayes), so that noise
that is everywhere alike is not taken for noise of a cell. Each row then has the chance that its label is wrong.

    noise = label_noise(logits, labels, trusted_logits, trusted_labels, groups=..., trusted_groups=...)
    noise.wrong         # [N] posterior that the label is wrong
    noise.suggested     # [N] most probable label
    noise.rates         # [G, K, K] how often a true label (row) of a group is given as another (column)
    noise.count()       # Estimate(value, low, high, n): how many labels are wrong

Arrays in and out; nothing here trains or reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics.flip_rates import (
    MANY_CELLS,
    Flips,
    Floats,
    Ints,
    anchor_of,
    calibrate,
    counts_of,
    drawn_at_random,
    drawn_together,
    flip_rates,
    moved,
    posterior_of,
    shares_by_inputs,
    shares_of,
    softmax,
    sums_by_cell,
    wrong_of,
)
from fairweight.metrics.intervals import Estimate

Bools: TypeAlias = npt.NDArray[np.bool_]

DRAWS = 30  # of the bootstrap; fewer where there are many cells
ROWS_AT_A_DRAW = 1_500
WIDER = 1.5  # a resampling cannot see how far the model is off; chosen on the sets that benchmarks/arena.py names


@dataclass(frozen=True)
class LabelNoise:
    """Which labels are probably wrong, and how many."""

    labels: Ints  # [N] as given
    groups: Ints  # [N]
    posterior: Floats  # [N, K] chances of the true label
    rates: Floats  # [G, K, K] how often a true label (row) of a group is given as another (column)
    shares: Floats  # [G, K] of true labels
    preferred: Ints  # [N] the label that the inputs alone speak for
    drawn: Floats  # [D, G, K] share of each cell that is wrong, over resampled rows
    by_chance: Floats  # [D, G, K] the same where no label is wrong

    @property
    def wrong(self) -> Floats:
        """Posterior that the label is wrong."""  # [N]
        found: Floats = 1.0 - self.posterior[np.arange(len(self.labels)), self.labels]
        return found

    @property
    def suggested(self) -> Ints:
        """Most probable label; the given one where it stands."""  # [N]
        found: Ints = self.posterior.argmax(axis=1)
        return found

    @property
    def looks_wrong(self) -> Bools:
        """True where another label is more probable than the given one."""  # [N]
        found: Bools = self.suggested != self.labels
        return found

    @property
    def is_hard(self) -> Bools:
        """True where the input speaks for another label, and the given one is still the more probable."""  # [N]
        found: Bools = (self.preferred != self.labels) & ~self.looks_wrong
        return found

    def count(self, label: int | None = None, group: int | None = None, level: float = 0.95) -> Estimate:
        """How many labels are wrong, of a given label or group if named.

        The interval reaches 0 where data without a wrong label would often show as many.
        """
        chosen = np.zeros(self.shares.shape)
        chosen[slice(None) if group is None else group, slice(None) if label is None else label] = 1.0
        inside = chosen[self.groups, self.labels] > 0
        value, n = float(self.wrong[inside].sum()), int(inside.sum())
        if not len(self.drawn):
            return Estimate(value, float("nan"), float("nan"), n)
        sizes = chosen * counts_of(self.labels, self.groups, *self.shares.shape)
        drawn, chance = ((part * sizes).sum(axis=(1, 2)) for part in (self.drawn, self.by_chance))
        tail = (1 - level) / 2
        low, high = min(float(np.quantile(drawn, tail)), value), max(float(np.quantile(drawn, 1 - tail)), value)
        low, high = (value + WIDER * (limit - value) for limit in (low, high))
        if value <= WIDER * float(np.quantile(chance, level)):
            low = 0.0
        return Estimate(value, max(low, 0.0), min(high, float(n)), n)


def label_noise(
    logits: Any,
    labels: Any,
    trusted_logits: Any,
    trusted_labels: Any,
    *,
    groups: Any = None,
    trusted_groups: Any = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> LabelNoise:
    """Estimate flip rates on rows [N, K] beside trusted ones [M, K]; groups are numbers from 0, None for one group.

    draws: resamplings behind the intervals, and behind drawing rates together.
    """
    said, y, g = _checked(logits, labels, groups)
    trusted, ty, tg = _checked(trusted_logits, trusted_labels, trusted_groups)
    k = said.shape[1]
    if trusted.shape[1] != k or len(ty) < k:
        raise BadInput(f"{len(ty)} trusted rows for {k} labels; give some of each, with the same labels.")
    count = int(max(g.max(), tg.max())) + 1
    draws = draws if count * k <= MANY_CELLS else min(draws, 8)
    given, there = counts_of(y, g, count, k), counts_of(ty, tg, count, k)
    usual = np.log(shares_of(given))  # what a model says of an input that tells nothing
    said, trusted = said - usual[g], trusted - usual[tg]
    clear = calibrate(trusted, ty, tg, count).evidence(said, g)
    random = np.random.default_rng(seed)
    part = random.permutation(len(y))[:ROWS_AT_A_DRAW]
    at_random = drawn_at_random(given, there, shares_by_inputs(clear[part]))
    anchor = anchor_of(given, there, random=at_random)
    flips = flip_rates(clear[part], y[part], g[part], anchor)
    flips = flip_rates(clear, y, g, anchor, start=flips, rounds=30)
    plain = clear + np.log(flips.shares)[g]  # what the inputs say, without regard to the given label
    tried: dict[str, list[tuple[Floats, Ints, Ints, Flips]]] = {"as given": [], "none wrong": []}
    for _ in range(draws):
        again = _resampled(np.zeros_like(ty) if at_random else tg * k + ty, random)
        rows = random.integers(0, len(y), min(len(y), ROWS_AT_A_DRAW))
        near = calibrate(trusted[again], ty[again], tg[again], count, rounds=8).evidence(said[rows], g[rows])
        held = anchor_of(given, counts_of(ty[again], tg[again], count, k), random=at_random)
        clean = (softmax(plain[rows]).cumsum(axis=1) < random.random((len(rows), 1))).sum(axis=1).clip(max=k - 1)
        for name, labelled in (("as given", y[rows]), ("none wrong", clean)):
            found = flip_rates(near, labelled, g[rows], held, start=flips, rounds=20)
            tried[name].append((np.exp(near), labelled, g[rows], found))
    together = np.eye(count * k)
    if draws > 1:
        together = drawn_together(
            wrong_of(flips.rates), np.stack([wrong_of(one[3].rates) for one in tried["as given"]])
        )
    rates = moved(flips, together)
    shares: list[Floats] = []
    for likelihood, labelled, grouped, found in (*tried["as given"], *tried["none wrong"]):
        chances = posterior_of(likelihood, labelled, grouped, found.shares, moved(found, together))
        sums = sums_by_cell(chances, labelled, grouped, count)  # [G, given, true]
        shares.append(1 - sums[:, np.arange(k), np.arange(k)] / np.maximum(sums.sum(axis=2), 1e-12))
    drawn = np.stack(shares).reshape(2, draws, count, k) if draws else np.zeros((2, 0, count, k))
    posterior = posterior_of(np.exp(clear), y, g, flips.shares, rates)
    return LabelNoise(y, g, posterior, rates, flips.shares, plain.argmax(axis=1), drawn[0], drawn[1])


def _resampled(strata: Ints, random: np.random.Generator) -> Ints:
    """Places drawn with replacement, as many of each stratum as there are."""  # [M]
    order = np.argsort(strata, kind="stable")
    _, first, sizes = np.unique(strata[order], return_index=True, return_counts=True)
    begin, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
    found: Ints = order[begin + (random.random(len(strata)) * size).astype(np.int64)]
    return found


def _checked(logits: Any, labels: Any, groups: Any) -> tuple[Floats, Ints, Ints]:
    values, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):  # one logit is that of the positive label
        values = np.stack([np.zeros(len(values)), values.reshape(-1)], axis=1)
    g = np.zeros(len(y), dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
    if values.ndim != 2 or not len(values) == len(y) == len(g) or len(y) == 0:
        raise BadInput(
            f"logits of shape {values.shape} for {len(y)} labels and {len(g)} groups; give one row for each."
        )
    if not np.isfinite(values).all():
        raise BadInput("some logits are no finite numbers; train the model again, with a lower learning rate.")
    if y.min() < 0 or y.max() >= values.shape[1] or g.min() < 0:
        raise BadInput(f"labels are numbers from 0 to {values.shape[1] - 1} here, and groups from 0.")
    return values, y, g
