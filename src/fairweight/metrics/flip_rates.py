"""Flip rates of labels: calibrate a model's opinion on trusted rows, EM over true labels, shrinkage of rates.

Arrays in and out: evidence is log p(x | label) up to a constant per row, cells are (group, label).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairweight.constraints import plain_seed
from fairweight.metrics._samples import Ints
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.rates import Floats

MANY_CELLS = 64
TOLERANCE = 1e-4  # of rates, at which EM stops
KEPT_COUNTS = 2.0  # pseudo-counts of a true label that was written down right, in each group
POOLED_COUNTS = 10.0  # pseudo-counts of flips as all groups together show them
ANCHOR_ROWS = 50.0  # trusted rows of a group at which inputs say as much of the true labels' shares as the given labels
RANDOM_ROWS = 150.0  # trusted rows at which their own shares of labels, if drawn at random, say as much as the inputs
MIN_ERROR = 0.02  # error of a rate, as an angle, below which resampling is not believed
SPREADS = (0.0, 0.03, 0.07, 0.12, 0.2, 0.35)  # by how much rates may differ, as angles
WIDENING = 1.5  # no interval sees how far the model is off; chosen on the sets that benchmarks/arena.py names


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
        counted = chosen[self.groups, self.labels]
        value, n = float(self.wrong[counted].sum()), int(counted.sum())
        drawn, chance = (part[:, chosen].sum(axis=1) for part in (self.drawn, self.by_chance))
        raw, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        low, high = (value + WIDENING * (limit - value) for limit in (min(raw, value), max(high, value)))
        if not len(chance):  # the posterior knows where none may be wrong
            low = value * (min(raw, value) / max(value, 1e-12)) ** WIDENING
        elif value <= WIDENING * np.quantile(chance, level):
            low = 0.0
        return Estimate(value, max(float(low), 0.0), min(float(high), float(n)), n)

    def likely_labels(self, seed: int = 0) -> Ints:
        """A label for each row, drawn by its chances: rates of a model on them are right on average."""  # [N]
        return drawn_labels(self.posterior, np.random.default_rng(plain_seed(seed)))


def drawn_labels(chances: Floats, random: np.random.Generator) -> Ints:
    """A label for each row, drawn by its chances [N, K]."""  # [N]
    line = random.random((len(chances), 1))
    return np.asarray((chances.cumsum(axis=1) < line).sum(axis=1).clip(max=chances.shape[1] - 1))


def calibrate(
    scores: Floats, score_groups: Ints, logits: Floats, labels: Ints, groups: Ints, num_groups: int, rounds: int = 25
) -> Floats:
    """Evidence of logits [N, K] in groups: scale · logit + bias of label and group, fitted to trusted rows [M, K].

    Few rows leave the logits almost as they are. How common a label is among the trusted rows is taken out, so that
    they may be drawn evenly or at random. Fitted by Newton's method.
    """
    k = logits.shape[1]
    one_hot, member = np.eye(k)[labels], np.eye(num_groups)[groups]  # [M, K], [M, G]
    offset = np.log(shares_of(member.T @ one_hot))[groups]
    precision = np.eye(1 + num_groups * k)  # biases vary by 0.1, and by 0.1 in a group
    precision[1:, 1:] = np.kron(np.linalg.inv(0.1 * (np.eye(num_groups) + 1)), np.eye(k))
    target = np.eye(1, len(precision))[0]
    value = target.copy()
    for _ in range(rounds):
        chance = softmax(value[0] * logits + value[1:].reshape(num_groups, k)[groups] + offset)
        slope = chance - one_hot  # [M, K]
        cross = chance * (logits - (chance * logits).sum(axis=1, keepdims=True))  # [M, K]
        gradient, curvature = precision @ (value - target), precision.copy()
        gradient += np.concatenate([[(slope * logits).sum()], (member.T @ slope).ravel()])
        curvature[0] += np.concatenate([[(cross * logits).sum()], (member.T @ cross).ravel()])
        curvature[1:, 0] = curvature[0, 1:]
        for g in range(num_groups):
            block, in_group = slice(1 + g * k, 1 + (g + 1) * k), chance[groups == g]
            curvature[block, block] += np.diag(in_group.sum(axis=0)) - in_group.T @ in_group
        step = np.linalg.solve(curvature, gradient)
        value = value - step / max(1.0, float(np.abs(step).max()) / 2.0)  # a far start takes short steps
        if float(np.abs(step).max()) < 1e-8:
            break
    evidence = max(float(value[0]), 0.0) * scores + value[1:].reshape(num_groups, k)[score_groups]
    return np.asarray(evidence - evidence.max(axis=1, keepdims=True))


def anchor_of(given: Floats, trusted: Floats, *, random: bool) -> tuple[Floats, Floats]:
    """Shares at which true labels are held [G, K], and how firmly, 0 to 1 [G]; by counts of labels in groups [G, K].

    random: whether trusted rows were drawn so. Then they show how common a true label is; those that were drawn evenly
    do not, and the given labels stand in for them, the more the fewer trusted rows there are.
    """
    size = trusted.sum(axis=1)
    if not random:
        return shares_of(given), ANCHOR_ROWS / (ANCHOR_ROWS + size)
    overall = shares_of(trusted.sum(axis=0, keepdims=True))  # [1, K] for groups with hardly any
    weight = size.sum() / (size.sum() + RANDOM_ROWS)
    return (trusted + 5 * overall) / (size + 5)[:, None], np.full(len(size), weight)


def natural_groups(given: Floats, trusted: Floats) -> bool:
    """True if groups are as common among trusted rows as in train, and labels not as many of each; counts [G, K]."""
    from scipy.stats import chi2

    even = (trusted.max(axis=1) <= 1.25 * np.maximum(trusted.min(axis=1), 1.0)).all()
    if even or (trusted == trusted.max()).mean() >= 0.5:  # the second: an even draw that ran short of some cells
        return False
    sizes, expected = trusted.sum(axis=1), given.sum(axis=1) / given.sum() * trusted.sum()
    distance = float(((sizes - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
    return bool(chi2.sf(distance, max(1, len(sizes) - 1)) > 1e-3)


def drawn_at_random(given: Floats, trusted: Floats, by_inputs: Floats) -> bool:
    """True if trusted rows look like a random draw, by counts [G, K] and the labels' shares that inputs speak for [K].

    Groups have their natural shares then, and labels too; as many of each label in every group is an even draw.
    """
    n = trusted.sum()
    share = trusted.sum(axis=0) / n
    close = np.abs(share - by_inputs) <= 2 * np.sqrt(0.04**2 + share * (1 - share) / n)  # inputs err by about 0.04
    return bool(close.all()) and natural_groups(given, trusted)


class Flips(NamedTuple):
    """Shares of true labels, and flip rates, as EM finds them."""

    shares: Floats  # [G, K] of true labels
    rates: Floats  # [G, K, K] row: true label, column: given label


def flip_rates(
    evidence: Floats, labels: Ints, groups: Ints, anchor: tuple[Floats, Floats], start: Flips | None = None,
    rounds: int = 300,
) -> Flips:  # fmt: skip
    """EM over true labels, for given labels and log-likelihoods [N, K] of the inputs.

    Rates are held at no flips, and at what all groups show where rows are few.
    """
    anchor_shares, strength = anchor
    shares, rates = start or (anchor_shares, _rates(np.full(anchor_shares.shape, 0.1)))
    likelihood, diagonal = np.exp(evidence), np.eye(evidence.shape[1], dtype=bool)
    for _ in range(rounds):
        before = rates
        posterior = posterior_of(likelihood, labels, groups, shares, rates)
        counts = sums_by_cell(posterior, labels, groups, len(shares)).transpose(0, 2, 1)  # [G, true, given]
        pooled = counts.sum(axis=0) + 1e-9 + KEPT_COUNTS * diagonal
        pooled /= pooled.sum(axis=1, keepdims=True)  # [true, given]
        smoothed = counts + POOLED_COUNTS * (pooled + _rates(1 - pooled[diagonal])) / 2 + KEPT_COUNTS * diagonal
        rates = smoothed / smoothed.sum(axis=2, keepdims=True)
        shares = (1 - strength[:, None]) * shares_of(counts.sum(axis=2)) + strength[:, None] * anchor_shares
        if float(np.abs(rates - before).max()) < TOLERANCE:
            break
    return Flips(shares, rates)


def shrinkage(rates: Floats, drawn: Sequence[Floats]) -> Floats:
    """Matrix that shrinks rates of wrong labels, as angles, towards each other as far as their errors over draws ask.

    Rates are a mean, an effect of the label, one of the group and one of the cell, each with a spread; every
    combination of spreads counts by how well it explains the rates. (An angle is arcsin √rate: its error is alike for
    small and large rates.) Rates are [G, K, K], as those of each draw.
    """  # [G K, G K]
    g, k = rates.shape[:2]
    value, *angles = (_angle(1 - r.diagonal(0, 1, 2)).ravel() for r in (rates, *drawn))
    ones = np.ones(g * k)
    errors = np.cov(np.stack(angles).T).reshape(g * k, g * k)
    errors = 0.5 * errors + 0.5 * np.diag(np.diag(errors)) + MIN_ERROR**2 * np.eye(g * k)
    label, group = np.tile(np.arange(k), g), np.repeat(np.arange(g), k)
    kinds = [np.eye(g * k)]
    if g > 1 and g * k <= MANY_CELLS:
        kinds += [(code[:, None] == code).astype(np.float64) for code in (label, group)]
    scores, maps = [], []
    for spreads in product(SPREADS, repeat=len(kinds)):
        extra: Floats = sum((s**2 * kind for s, kind in zip(spreads, kinds, strict=True)), np.zeros_like(errors))
        precision = np.linalg.inv(errors + extra)
        total = ones @ precision @ ones
        mean = np.outer(ones, precision @ ones / total)  # each entry the weighted mean
        residual = value - mean @ value
        scores.append(0.5 * (np.linalg.slogdet(precision)[1] - residual @ precision @ residual - np.log(total)))
        maps.append(mean + extra @ precision @ (np.eye(g * k) - mean))
    return np.asarray(np.einsum("c,cij->ij", softmax(np.array([scores]))[0], np.stack(maps)))


def shrink(rates: Floats, by: Floats) -> Floats:
    """Shrink flip rates by the matrix of `shrinkage`; which other label is written stays the same."""  # [G, K, K]
    k = rates.shape[1]
    flips = rates * (1 - np.eye(k))
    wrong = flips.sum(axis=2)
    new_wrong = np.sin((by @ _angle(wrong).ravel()).clip(0, 1.3)) ** 2
    new_rates = flips * (new_wrong.reshape(wrong.shape) / np.maximum(wrong, 1e-12))[:, :, None]
    new_rates[:, np.arange(k), np.arange(k)] = 1 - new_rates.sum(axis=2)
    return np.asarray(new_rates)


def shares_by_inputs(evidence: Floats) -> Floats:
    """Shares of the true labels that the inputs alone speak for."""  # [K]
    shares = np.full(evidence.shape[1], 1 / evidence.shape[1])
    for _ in range(100):
        shares = softmax(evidence + np.log(np.maximum(shares, 1e-300))).mean(axis=0)
    return shares


def posterior_of(likelihood: Floats, labels: Ints, groups: Ints, shares: Floats, rates: Floats) -> Floats:
    """Chances of each row's true label, by Bayes' rule."""  # [N, K]
    joint = likelihood * (shares[:, :, None] * rates).transpose(0, 2, 1)[groups, labels]
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300))


def sums_by_cell(chances: Floats, labels: Ints, groups: Ints, num_groups: int) -> Floats:
    """Sum of the chances of each true label, by group and given label."""  # [G, given, true]
    k = chances.shape[1]
    sums = [np.bincount(groups * k + labels, chances[:, y], minlength=num_groups * k) for y in range(k)]
    return np.stack(sums, axis=1).reshape(num_groups, k, k).astype(np.float64)


def counts_by_cell(labels: Ints, groups: Ints, shape: tuple[int, int]) -> Floats:
    """How many rows each group and label has."""  # [G, K]
    place = groups * shape[1] + labels
    return np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _rates(wrong: Floats) -> Floats:
    """Rates [..., K, K] at which each label [..., K] is written as any other one alike."""
    diagonal = np.eye(wrong.shape[-1], dtype=bool)
    return np.where(diagonal, (1 - wrong)[..., None], wrong[..., None] / max(1, len(diagonal) - 1))


def _angle(rates: Floats) -> Floats:
    return np.asarray(np.arcsin(np.sqrt(rates.clip(0, 1))))


def shares_of(counts: Floats) -> Floats:
    """Shares of the labels in each group, from counts."""  # [G, K]
    return np.asarray((counts + 1) / (counts + 1).sum(axis=1, keepdims=True))


def softmax(scores: Floats) -> Floats:
    """Chances from scores, row by row."""  # [N, K]
    lifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(lifted / lifted.sum(axis=1, keepdims=True))
