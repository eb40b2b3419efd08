"""How many labels are wrong, and which: flip rates per (label, group), estimated beside rows that are trusted.

A model's logits say which label an input looks like; best, a model that was not trained on the row. On trusted rows,
whose labels are right, that opinion is calibrated: what it is worth as evidence, log p(x | label) up to a constant.
The other rows then tell, for each group, how common each true label is and how often it was written down as another
one: with two labels by every pair of rates on a grid (flip_grid.py), with more by EM, after which rates that differ by
no more than chance explains are drawn together. So noise that is everywhere alike is not taken for noise of a cell.
Each row then has the chance that its label is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairweight.constraints import plain_seed
from fairweight.errors import BadInput
from fairweight.metrics import flip_rates as flip
from fairweight.metrics.flip_grid import SAMPLES, Grid, flip_grid
from fairweight.metrics.flip_rates import Floats, Ints
from fairweight.metrics.intervals import Estimate

DRAWS = 30  # resamplings behind intervals, and behind drawing rates together; fewer where there are many cells
ROWS_AT_A_DRAW = 1_500
WIDER = 1.5  # no interval sees how far the model is off; chosen on the sets that benchmarks/arena.py names


@dataclass(frozen=True)
class LabelNoise:
    """Which labels are probably wrong, and how many."""

    labels: Ints  # [N] as given
    groups: Ints  # [N]
    posterior: Floats  # [N, K] chances of the true label
    wrong: Floats  # [N] posterior that the label is wrong
    suggested: Ints  # [N] most probable label; the given one where it stands
    looks_wrong: npt.NDArray[np.bool_]  # [N] another label is more probable than the given one
    is_hard: npt.NDArray[np.bool_]  # [N] the input speaks for another label, the given one is more probable
    rates: Floats  # [G, K, K] how often a true label (row) of a group is given as another (column)
    shares: Floats  # [G, K] of true labels
    drawn: Floats  # [D, G, K] how many of each cell are wrong, over resampled rows or drawn from the posterior
    by_chance: Floats  # [D, G, K] the same where no label is wrong; none of these where the posterior knows it

    def count(self, label: int | None = None, group: int | None = None, level: float = 0.95) -> Estimate:
        """How many labels are wrong, of all, of a given label or of a group, with an interval.

        The interval reaches 0 where data without a wrong label would often show as many.
        """
        chosen = np.zeros(self.shares.shape, dtype=bool)
        chosen[slice(None) if group is None else group, slice(None) if label is None else label] = True
        inside = chosen[self.groups, self.labels]
        value, n = float(self.wrong[inside].sum()), int(inside.sum())
        if not len(self.drawn):
            return Estimate(value, float("nan"), float("nan"), n)
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
        line = np.random.default_rng(plain_seed(seed)).random((len(self.labels), 1))
        return np.asarray((self.posterior.cumsum(axis=1) < line).sum(axis=1).clip(max=self.posterior.shape[1] - 1))


def label_noise(
    logits: Any, labels: Any, trusted_logits: Any, trusted_labels: Any, *, groups: Any = None,
    trusted_groups: Any = None, draws: int = DRAWS,
) -> LabelNoise:  # fmt: skip
    """Estimate flip rates on rows [N, K] beside trusted ones [M, K]; groups are numbers from 0, None for one group."""
    said, y, g = _checked(logits, labels, groups)
    trusted, ty, tg = _checked(trusted_logits, trusted_labels, trusted_groups)
    k = said.shape[1]
    if trusted.shape[1] != k or len(ty) < k:
        raise BadInput(f"{len(ty)} trusted rows for {k} labels; give some of each, with the same labels.")
    if k == 2:
        odds, beside = said[:, 1] - said[:, 0], trusted[:, 1] - trusted[:, 0]
        return _of_two(y, g, flip_grid(odds, y, g, beside, ty, tg, SAMPLES if draws else 0))
    cells = np.zeros((int(max(g.max(), tg.max())) + 1, k))
    draws = draws if cells.size <= flip.MANY_CELLS else min(draws, 8)
    given = _counts(y, g, cells)
    usual = np.log(flip.shares_of(given))  # what a model says of an input that tells nothing
    said, trusted = said - usual[g], trusted - usual[tg]
    clear = flip.calibrate(said, g, trusted, ty, tg, len(cells))
    random = np.random.default_rng(0)
    part = random.permutation(len(y))[:ROWS_AT_A_DRAW]
    at_random = flip.drawn_at_random(given, _counts(ty, tg, cells), flip.shares_by_inputs(clear[part]))
    anchor = flip.anchor_of(given, _counts(ty, tg, cells), random=at_random)
    flips = flip.flip_rates(clear[part], y[part], g[part], anchor)
    flips = flip.flip_rates(clear, y, g, anchor, start=flips, rounds=30)
    plain = clear + np.log(flips.shares)[g]  # what the inputs say, without regard to the given label
    strata = np.zeros_like(ty) if at_random else tg * k + ty
    tried: list[tuple[Floats, Ints, Ints, flip.Flips]] = []  # of each draw: as given, and with no label wrong
    for _ in range(draws):
        again, rows = _resampled(strata, random), random.integers(0, len(y), min(len(y), ROWS_AT_A_DRAW))
        near = flip.calibrate(said[rows], g[rows], trusted[again], ty[again], tg[again], len(cells), rounds=8)
        held = flip.anchor_of(given, _counts(ty[again], tg[again], cells), random=at_random)
        below = flip.softmax(plain[rows]).cumsum(axis=1) < random.random((len(rows), 1))
        for labelled in (y[rows], below.sum(axis=1).clip(max=k - 1)):
            found = flip.flip_rates(near, labelled, g[rows], held, start=flips, rounds=20)
            tried.append((np.exp(near), labelled, g[rows], found))
    together = np.eye(cells.size)
    if draws > 1:
        together = flip.drawn_together(flips.rates, [found.rates for *_, found in tried[::2]])
    counts = np.zeros((2 * draws, *cells.shape))
    for count, (likelihood, labelled, grouped, found) in zip(counts, tried, strict=True):
        chances = flip.posterior_of(likelihood, labelled, grouped, found.shares, flip.moved(found.rates, together))
        sums = flip.sums_by_cell(chances, labelled, grouped, len(cells))  # [G, given, true]
        count[:] = given * (1 - np.diagonal(sums, axis1=1, axis2=2) / np.maximum(sums.sum(axis=2), 1e-12))
    rates = flip.moved(flips.rates, together)
    posterior = flip.posterior_of(np.exp(clear), y, g, flips.shares, rates)
    wrong, suggested = 1.0 - posterior[np.arange(len(y)), y], posterior.argmax(axis=1)
    hard = (plain.argmax(axis=1) != y) & (suggested == y)
    return LabelNoise(
        y, g, posterior, wrong, suggested, suggested != y, hard, rates, flips.shares, counts[::2], counts[1::2]
    )


def _of_two(y: Ints, g: Ints, found: Grid) -> LabelNoise:
    """Two labels: the other one is more probable, or the given one stands."""
    wrong, looks = found.wrong, found.wrong > 0.5
    posterior = np.stack([np.where(y == label, 1 - wrong, wrong) for label in (0, 1)], axis=1)
    hard = ((found.positive > 0.5) != (y == 1)) & ~looks
    suggested = np.where(looks, 1 - y, y)
    nothing = np.zeros((0, *found.shares.shape))
    return LabelNoise(y, g, posterior, wrong, suggested, looks, hard, found.rates, found.shares, found.drawn, nothing)


def _counts(labels: Ints, groups: Ints, cells: Floats) -> Floats:
    """How many rows each cell has."""  # [G, K]
    place = groups * cells.shape[1] + labels
    return np.bincount(place, minlength=cells.size).reshape(cells.shape).astype(np.float64)


def _resampled(strata: Ints, random: np.random.Generator) -> Ints:
    """Places drawn with replacement, as many of each stratum as there are."""  # [M]
    order = np.argsort(strata, kind="stable")
    _, first, sizes = np.unique(strata[order], return_index=True, return_counts=True)
    begin, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
    return np.asarray(order[begin + (random.random(len(strata)) * size).astype(np.int64)])


def _checked(logits: Any, labels: Any, groups: Any) -> tuple[Floats, Ints, Ints]:
    values, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):  # one logit is that of the positive label
        values = np.stack([np.zeros(len(values)), values.reshape(-1)], axis=1)
    g = np.zeros(len(y), dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
    if values.ndim != 2 or not len(values) == len(y) == len(g) or len(y) == 0:
        raise BadInput(f"logits of shape {values.shape}, {len(y)} labels, {len(g)} groups; give one row for each.")
    if not np.isfinite(values).all():
        raise BadInput("some logits are no finite numbers; train the model again, with a lower learning rate.")
    if y.min() < 0 or y.max() >= values.shape[1] or g.min() < 0:
        raise BadInput(f"labels are numbers from 0 to {values.shape[1] - 1} here, and groups from 0.")
    return values, y, g
