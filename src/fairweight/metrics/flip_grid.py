"""Flip rates of two labels: every pair of rates on a grid, weighed by what train and trusted rows say of it.

If a 0 is written as 1 at rate u and a 1 as 0 at rate v, then P(given 1 | x) = u + (1 - u - v) P(true 1 | x). For each
pair the second chance is a logistic curve of the model's opinion, fitted to the given labels of a group: there are many
of them, so that the few trusted rows are left to tell the pairs apart. Rates may be one for all, one for each label,
one for each group or one for each cell; each of the four counts by how well it explains the data (Bayes), and each rate
may be 0. Nothing is drawn at random but the intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairweight.metrics._samples import Ints
from fairweight.metrics.flip_rates import LabelNoise, counts_by_cell, natural_groups
from fairweight.metrics.rates import Floats

RATES = np.concatenate([[0, 0.004, 0.01, 0.02, 0.03], np.arange(0.045, 0.25, 0.015), [0.26, 0.28, 0.3, 0.33, 0.36, 0.4],
                        [0.45, 0.52, 0.6, 0.7]])  # fmt: skip
ZERO_RATE = 0.3  # chance that a rate is 0, before anything is seen
DECAY = 5.0  # how fast large rates become less likely: (1 - rate) to this power, less one
MAX_SUM = 0.85  # both rates of a group together: beyond, given labels would say next to nothing
TRAIN_WEIGHT = 0.4  # what a train row counts: its curve is not quite a logistic one
MIN_CHANCE = 0.003  # no opinion is surer than that
BINS = 75  # of opinions in each group with as many rows in each, and as many more of one width
SCALE_PULL = 5.0  # on a curve's scale, as a ratio: inputs that all but determine a label need one many times larger
MAX_ODDS = 12.0  # log odds
SHARE_ERROR = 0.07  # by how much shares of true labels are usually off, before trusted rows tell them
SAMPLES = 2_000  # of the counts, for intervals
ROUNDS = 30  # of Newton's method, for a group's curves
U, V = (rate.astype(np.float64) for rate in np.meshgrid(RATES, RATES, indexing="ij"))  # [R, R]
KEPT = 1 - U - V  # [R, R] how much of the true chance shows in given labels
# [R] bounds of the rates that each rate above 0 stands for
EDGES = np.concatenate([[0.0], (RATES[1:-1] + RATES[2:]) / 2, RATES[-1:]])
POSSIBLE = KEPT >= 1 - MAX_SUM


class Binned(NamedTuple):
    """One group: its opinions in bins, and the curve that belongs to each pair of rates."""

    odds: Floats  # [B] mean opinion, as log odds of label 1
    rows: Floats  # [2, B] how many are given as 0 and as 1
    scale: Floats  # [R, R]
    bias: Floats  # [R, R]

    def positive(self, odds: Floats) -> Floats:
        """P(true 1) by every pair of rates."""  # [N, R, R]
        return _curve(self.scale * odds[:, None, None] + self.bias)


def flip_grid(
    odds: Floats, labels: Ints, groups: Ints, trusted: Floats, trusted_labels: Ints, trusted_groups: Ints,
    draws: int = SAMPLES,
) -> LabelNoise:  # fmt: skip
    """Rates, and the chance that each label is wrong: log odds of label 1 for rows [N] and for trusted rows [M]."""
    odds, trusted = odds.clip(-MAX_ODDS, MAX_ODDS), trusted.clip(-MAX_ODDS, MAX_ODDS)
    count = int(max(groups.max(), trusted_groups.max())) + 1
    parts = {g: _binned(odds[groups == g], labels[groups == g]) for g in np.unique(groups).tolist()}
    known = counts_by_cell(trusted_labels, trusted_groups, (count, 2))
    given = counts_by_cell(labels, groups, (count, 2))
    share = {g: np.einsum("b,bij->ij", part.rows.sum(axis=0), part.positive(part.odds)) / part.rows.sum()
             for g, part in parts.items()}  # fmt: skip
    fits = {}
    for g, part in parts.items():
        known_rows = trusted_groups == g
        by_trusted = _trusted_fit(part, trusted[known_rows], trusted_labels[known_rows], share[g])
        fits[g] = TRAIN_WEIGHT * _train_fit(part) + by_trusted
    weights = _weights(fits)
    if natural_groups(given, known) and _at_random(known, share, weights) > 0:
        for g, positive_share in share.items():
            fits[g] = fits[g] + known[g, 1] * np.log(positive_share) + known[g, 0] * np.log(1 - positive_share)
        weights = _weights(fits)
    wrong, positive = np.zeros(len(odds)), np.zeros(len(odds))
    rates, shares = np.tile(np.eye(2), (count, 1, 1)), np.full((count, 2), 0.5)
    for g, part in parts.items():
        rows, mean = np.flatnonzero(groups == g), weights[g].mean
        u, v, positive_share = (float((mean * value).sum()) for value in (U, V, share[g]))
        rates[g], shares[g] = [[1 - u, u], [v, 1 - v]], [1 - positive_share, positive_share]
        likely = mean > 1e-3 * mean.max()  # the others would take time and change next to nothing
        for i, j in np.argwhere(likely):
            chance = _curve(part.scale[i, j] * odds[rows] + part.bias[i, j])
            zero_wrong, one_wrong = _wrong_chances(chance, U[i, j], V[i, j])
            positive[rows] += mean[i, j] * chance
            wrong[rows] += mean[i, j] * np.where(labels[rows] == 1, one_wrong, zero_wrong)
        positive[rows] /= mean[likely].sum()
        wrong[rows] /= mean[likely].sum()
    posterior = np.stack([np.where(labels == y, 1 - wrong, wrong) for y in (0, 1)], axis=1)
    drawn = _drawn_counts(parts, weights, draws, count)
    return LabelNoise(
        labels, groups, posterior, wrong, suggested=np.where(wrong > 0.5, 1 - labels, labels),
        by_inputs=(positive > 0.5).astype(np.int64), rates=rates, shares=shares, drawn=drawn, by_chance=drawn[:0],
    )  # fmt: skip


def _drawn_counts(parts: dict[int, Binned], weights: dict[int, Weights], draws: int, count: int) -> Floats:
    """Wrong labels of each cell, drawn from the posterior."""  # [D, G, 2]
    counts = np.zeros((draws, count, 2))
    random, each = np.random.default_rng(1), np.arange(draws)
    # A rate of the grid stands for those around it: where in between is drawn too, alike for all cells.
    between = (EDGES[:-1] + random.random((draws, 1)) * np.diff(EDGES)) / RATES[1:]
    around = np.concatenate([np.ones((draws, 1)), between], axis=1)  # [D, R]
    for g, cells in _sampled(weights, draws).items():
        mean, spread = _expected(parts[g])[:, :, cells]
        mean = mean * np.stack([around[each, cells % len(RATES)], around[each, cells // len(RATES)]])
        counts[:, g] = np.maximum(mean + spread * random.standard_normal(mean.shape), 0).T
    return counts


def _curve(log_odds: Floats) -> Floats:
    return np.asarray((1 / (1 + np.exp(-log_odds))).clip(MIN_CHANCE, 1 - MIN_CHANCE))


def _wrong_chances(chance: Floats, u: Floats, v: Floats) -> tuple[Floats, Floats]:
    """Chance that a given 0 and that a given 1 is wrong, where a true 1 has chance q."""
    given = u + (1 - u - v) * chance
    return chance * v / (1 - given), (1 - chance) * u / given


def _expected(part: Binned) -> Floats:
    """Mean and spread of the wrong labels among those given as 0 and as 1, by every pair of rates."""  # [2, 2, R R]
    chances = np.stack(_wrong_chances(part.positive(part.odds), U, V)).reshape(2, len(part.odds), -1)
    mean, variance = (np.einsum("yb,ybr->yr", part.rows, value) for value in (chances, chances * (1 - chances)))
    return np.stack([mean, np.sqrt(variance)])


def _binned(odds: Floats, labels: Ints, rounds: int = 30) -> Binned:
    """Bins of one group's opinions, and its curve under every pair of rates, by Newton's method from a near start."""
    edges = np.union1d(np.quantile(odds, np.linspace(0, 1, BINS + 1)[1:-1]), np.linspace(-4, 4, BINS))
    bins = np.searchsorted(edges, odds, side="right")
    rows = np.stack([np.bincount(bins[labels == y], minlength=len(edges) + 1) for y in (0, 1)]).astype(np.float64)
    filled = rows.sum(axis=0) > 0
    middle = np.bincount(bins, odds, len(edges) + 1)[filled] / rows.sum(axis=0)[filled]
    rows = rows[:, filled]
    n, ones, x = (value[:, None, None] for value in (rows.sum(axis=0), rows[1], middle))
    start = np.maximum(KEPT, 0.2) ** -0.5  # an opinion on given labels is flatter than one on true labels
    scale, bias, strength = start.copy(), np.zeros_like(start), SCALE_PULL * start**2
    for _ in range(rounds):
        q = _curve(scale * x + bias)
        chance = U + KEPT * q
        slope = KEPT * q * (1 - q)
        gradient = (ones - n * chance) / (chance * (1 - chance)) * slope
        curvature = n * slope**2 / (chance * (1 - chance))
        by_scale = (gradient * x).sum(axis=0) - strength * np.log(
            scale / start
        ) / scale  # gradient by scale, and by bias
        by_bias = gradient.sum(axis=0) - 0.5 * bias
        a = (curvature * x * x).sum(axis=0) + strength / scale**2  # second derivatives: scale, both, bias
        b = (curvature * x).sum(axis=0)
        c = curvature.sum(axis=0) + 0.5
        steps = np.stack([c * by_scale - b * by_bias, a * by_bias - b * by_scale]) / (a * c - b * b)
        steps /= np.maximum(1.0, np.abs(steps).max(axis=0))
        scale, bias = np.maximum(scale + steps[0], 0.05), bias + steps[1]
        if float(np.abs(steps[:, POSSIBLE]).max()) < 1e-3:
            break
    return Binned(middle, rows, scale, bias)


def _train_fit(part: Binned) -> Floats:  # [R, R]
    chance = U + KEPT * part.positive(part.odds)
    fit = np.einsum("b,bij->ij", part.rows[1], np.log(chance)) + np.einsum("b,bij->ij", part.rows[0], np.log1p(-chance))
    return np.asarray(fit - fit[0, 0])


def _trusted_fit(part: Binned, odds: Floats, labels: Ints, share: Floats) -> Floats:
    """Log-likelihood of a group's trusted labels, where how many there are of each says nothing."""  # [R, R]
    values, places = np.unique(odds.round(2), return_inverse=True)
    zeros, ones = (np.bincount(places[labels == y], minlength=len(values)).astype(np.float64) for y in (0, 1))
    q = part.positive(values)
    for_one, for_zero = q * (ones.sum() + 0.5) / share, (1 - q) * (zeros.sum() + 0.5) / (1 - share)
    chance = for_one / (for_one + for_zero)
    return np.asarray(np.einsum("b,bij->ij", ones, np.log(chance)) + np.einsum("b,bij->ij", zeros, np.log1p(-chance)))


def _at_random(known: Floats, share: dict[int, Floats], weights: dict[int, Weights]) -> float:
    """Log odds that trusted rows were drawn at random, so that each label is as common as it is in truth."""
    from scipy.special import betaln

    odds = 0.0
    for g, of_group in weights.items():
        zero, one = known[g]
        expected = share[g].clip(0.02, 0.98)
        strength = np.maximum(expected * (1 - expected) / SHARE_ERROR**2 - 1, 2.0)
        a, b = expected * strength, (1 - expected) * strength
        drawn = betaln(one + a, zero + b) - betaln(a, b)
        odds += _total(np.log(np.maximum(of_group.mean, 1e-300)) + drawn) - float(betaln(one + 1, zero + 1))
    return odds


class Weights(NamedTuple):
    """Chance of every pair of rates in one group: all in all [R, R], and by each way that rates may be alike."""

    mean: Floats
    ways: tuple[tuple[float, Floats], ...]  # chance of the way, chances under it; the first two are common to groups


def _weights(fits: dict[int, Floats]) -> dict[int, Weights]:
    above_zero = np.diff(1 - (1 - EDGES) ** DECAY) / (1 - (1 - EDGES[-1]) ** DECAY)
    prior = np.concatenate([[ZERO_RATE], (1 - ZERO_RATE) * above_zero])
    equal = np.where(np.eye(len(RATES), dtype=bool) & POSSIBLE, np.log(prior), -np.inf)
    free = np.where(POSSIBLE, np.log(prior)[:, None] + np.log(prior), -np.inf)
    all_groups = np.sum(list(fits.values()), axis=0)
    common = [equal + all_groups, free + all_groups]
    totals = [_total(log_chances) for log_chances in common]
    if len(fits) > 1:
        totals += [sum(_total(way + fit) for fit in fits.values()) for way in (equal, free)]
    chances = np.exp(np.array(totals) - _total(np.array(totals)))
    weights = {}
    for g, fit in fits.items():
        chances_by_way = [
            np.exp(log_chances - _total(log_chances))
            for log_chances in (*common, equal + fit, free + fit)[: len(chances)]
        ]
        mean = np.einsum("w,wij->ij", chances, np.stack(chances_by_way))
        weights[g] = Weights(mean, tuple(zip(chances.tolist(), chances_by_way, strict=True)))
    return weights


def _sampled(weights: dict[int, Weights], draws: int) -> dict[int, Ints]:
    """Places on the grid, drawn from the posterior of all groups together."""  # of each group [D]
    random = np.random.default_rng(0)
    ways = next(iter(weights.values())).ways
    way = random.choice(len(ways), draws, p=[chance for chance, _ in ways])
    places = {g: np.zeros(draws, dtype=np.int64) for g in weights}
    for k in range(len(ways)):
        common = random.random(draws)
        for g, of_group in weights.items():
            points = common if k < 2 else random.random(draws)
            place = np.searchsorted(of_group.ways[k][1].ravel().cumsum(), points).clip(max=U.size - 1)
            places[g] = np.where(way == k, place, places[g])
    return places


def _total(values: Floats) -> float:
    return float(np.logaddexp.reduce(values.ravel()))
