"""How many labels are wrong, and which: flip rates per (label, group), estimated beside rows that are trusted.

A model's logits say which label an input looks like; best, a model that was not trained on the row. On trusted rows,
whose labels are right, that opinion is calibrated: what it is worth as evidence, log p(x | label) up to a constant.
The other rows then tell, for each group, how common each true label is and how often it was written down as another
one: with two labels by every pair of rates on a grid (flip_grid.py), with more by EM, after which rates that differ by
no more than chance explains are shrunk towards each other. So noise that is everywhere alike is not taken for noise of
a cell. Each row then has the chance that its label is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairweight.errors import BadInput
from fairweight.metrics import flip_rates as flip
from fairweight.metrics._samples import Ints
from fairweight.metrics._tally import StratifiedDraw
from fairweight.metrics.flip_grid import flip_grid
from fairweight.metrics.flip_rates import LabelNoise
from fairweight.metrics.rates import Floats

DRAWS = 30  # resamplings behind intervals, and behind drawing rates together
ROWS_AT_A_DRAW = 1_500
__all__ = ["LabelNoise", "label_noise"]


def label_noise(
    logits: Any, labels: Any, trusted_logits: Any, trusted_labels: Any, *, groups: Any = None,
    trusted_groups: Any = None,
) -> LabelNoise:  # fmt: skip
    """Estimate flip rates on rows [N, K] beside trusted ones [M, K]; groups are numbers from 0, None for one group."""
    rows, trusted = _checked(logits, labels, groups), _checked(trusted_logits, trusted_labels, trusted_groups)
    k = rows.scores.shape[1]
    if trusted.scores.shape[1] != k or len(trusted.labels) < k:
        raise BadInput(f"{len(trusted.labels)} trusted rows for {k} labels; give some of each, with the same labels.")
    if k > 2:
        return _by_em(rows, trusted)
    odds, trusted_odds = (part.scores[:, 1] - part.scores[:, 0] for part in (rows, trusted))
    return flip_grid(odds, rows.labels, rows.groups, trusted_odds, trusted.labels, trusted.groups)


class _Rows(NamedTuple):
    scores: Floats  # [N, K] logits
    labels: Ints  # [N]
    groups: Ints  # [N]

    def at(self, places: Ints) -> _Rows:
        return _Rows(self.scores[places], self.labels[places], self.groups[places])


class _Resample(NamedTuple):
    likelihood: Floats  # [n, K] of the inputs of some rows
    labels: Ints  # [n]
    groups: Ints  # [n]
    flips: flip.Flips  # as EM finds them there


def _by_em(rows: _Rows, trusted: _Rows) -> LabelNoise:
    _, y, g = rows
    k = rows.scores.shape[1]
    shape = (int(max(g.max(), trusted.groups.max())) + 1, k)  # groups, labels
    given = flip.counts_by_cell(y, g, shape)
    usual = np.log(flip.shares_of(given))  # what a model says of an input that tells nothing
    rows, trusted = (part._replace(scores=part.scores - usual[part.groups]) for part in (rows, trusted))
    evidence = flip.calibrate(rows.scores, g, *trusted, shape[0])
    random = np.random.default_rng(0)
    some = random.permutation(len(y))[:ROWS_AT_A_DRAW]
    known = flip.counts_by_cell(trusted.labels, trusted.groups, shape)
    at_random = flip.drawn_at_random(given, known, flip.shares_by_inputs(evidence[some]))
    anchor = flip.anchor_of(given, known, random=at_random)
    flips = flip.flip_rates(evidence[some], y[some], g[some], anchor)
    flips = flip.flip_rates(evidence, y, g, anchor, start=flips, rounds=30)
    by_inputs = evidence + np.log(flips.shares)[g]  # without regard to the given label
    resamples = _resamples(rows, trusted, given, by_inputs, flips, at_random, random)
    matrix = flip.shrinkage(flips.rates, [resample.flips.rates for resample in resamples[::2]])
    counts = np.stack([_wrong_counts(resample, matrix, given) for resample in resamples])
    rates = flip.shrink(flips.rates, matrix)
    posterior = flip.posterior_of(np.exp(evidence), y, g, flips.shares, rates)
    return LabelNoise(
        y, g, posterior, wrong=1.0 - posterior[np.arange(len(y)), y], suggested=posterior.argmax(axis=1),
        by_inputs=by_inputs.argmax(axis=1), rates=rates, shares=flips.shares, drawn=counts[::2], by_chance=counts[1::2],
    )  # fmt: skip


def _resamples(
    rows: _Rows, trusted: _Rows, given: Floats, by_inputs: Floats, flips: flip.Flips, at_random: bool,
    random: np.random.Generator,
) -> list[_Resample]:  # fmt: skip
    """Estimate flips again on resampled rows: of each draw, with labels as given, then with no label wrong."""
    num_groups, k = given.shape
    strata = StratifiedDraw(np.zeros_like(trusted.labels) if at_random else trusted.groups * k + trusted.labels)
    resamples = []
    for _ in range(DRAWS if num_groups * k <= flip.MANY_CELLS else 8):
        redrawn = trusted.at(strata.order[strata.drawn(random)])
        places = random.integers(0, len(rows.labels), min(len(rows.labels), ROWS_AT_A_DRAW))
        some = rows.at(places)
        evidence = flip.calibrate(some.scores, some.groups, *redrawn, num_groups, rounds=8)
        known = flip.counts_by_cell(redrawn.labels, redrawn.groups, (num_groups, k))
        anchor = flip.anchor_of(given, known, random=at_random)
        for labels in (some.labels, flip.drawn_labels(flip.softmax(by_inputs[places]), random)):
            estimated = flip.flip_rates(evidence, labels, some.groups, anchor, start=flips, rounds=20)
            resamples.append(_Resample(np.exp(evidence), labels, some.groups, estimated))
    return resamples


def _wrong_counts(resample: _Resample, matrix: Floats, given: Floats) -> Floats:
    """How many labels of each cell are wrong, by the rates of a resample."""  # [G, K]
    likelihood, labels, groups, flips = resample
    chances = flip.posterior_of(likelihood, labels, groups, flips.shares, flip.shrink(flips.rates, matrix))
    sums = flip.sums_by_cell(chances, labels, groups, len(given))  # [G, given, true]
    right = np.diagonal(sums, axis1=1, axis2=2) / np.maximum(sums.sum(axis=2), 1e-12)
    return np.asarray(given * (1 - right))


def _checked(logits: Any, labels: Any, groups: Any) -> _Rows:
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
    return _Rows(values, y, g)
