"""How many labels are wrong, and which: flip rates per (label, group), estimated beside rows that are trusted.

A model's logits say which label an input looks like; best, a model that was not trained on the row. On trusted rows,
whose labels are right, that opinion is calibrated: what it is worth as evidence, log p(x | label) up to a constant.
The other rows then tell, for each group, how common each true label is and how often it was written down as another
one: with two labels by every pair of rates on a grid (flip_grid.py), with more by EM, after which rates that differ by
no more than chance explains are drawn together. So noise that is everywhere alike is not taken for noise of a cell.
Each row then has the chance that its label is wrong.
"""

from __future__ import annotations

from typing import Any

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
    opinion, y, g = _checked(logits, labels, groups)
    trusted, ty, tg = _checked(trusted_logits, trusted_labels, trusted_groups)
    k = opinion.shape[1]
    if trusted.shape[1] != k or len(ty) < k:
        raise BadInput(f"{len(ty)} trusted rows for {k} labels; give some of each, with the same labels.")
    if k == 2:
        odds, beside = opinion[:, 1] - opinion[:, 0], trusted[:, 1] - trusted[:, 0]
        return flip_grid(odds, y, g, beside, ty, tg)
    shape = (int(max(g.max(), tg.max())) + 1, k)  # groups, labels
    draws = DRAWS if shape[0] * k <= flip.MANY_CELLS else 8
    given = flip.counts_by_cell(y, g, shape)
    usual = np.log(flip.shares_of(given))  # what a model says of an input that tells nothing
    opinion, trusted = opinion - usual[g], trusted - usual[tg]
    clear = flip.calibrate(opinion, g, trusted, ty, tg, shape[0])
    random = np.random.default_rng(0)
    part = random.permutation(len(y))[:ROWS_AT_A_DRAW]
    known = flip.counts_by_cell(ty, tg, shape)
    at_random = flip.drawn_at_random(given, known, flip.shares_by_inputs(clear[part]))
    anchor = flip.anchor_of(given, known, random=at_random)
    flips = flip.flip_rates(clear[part], y[part], g[part], anchor)
    flips = flip.flip_rates(clear, y, g, anchor, start=flips, rounds=30)
    plain = clear + np.log(flips.shares)[g]  # what the inputs say, without regard to the given label
    trusted_again = StratifiedDraw(np.zeros_like(ty) if at_random else tg * k + ty)
    tried: list[tuple[Floats, Ints, Ints, flip.Flips]] = []  # of each draw: as given, and with no label wrong
    for _ in range(draws):
        drawn = trusted_again.order[trusted_again.drawn(random)]
        rows = random.integers(0, len(y), min(len(y), ROWS_AT_A_DRAW))
        near = flip.calibrate(opinion[rows], g[rows], trusted[drawn], ty[drawn], tg[drawn], shape[0], rounds=8)
        held = flip.anchor_of(given, flip.counts_by_cell(ty[drawn], tg[drawn], shape), random=at_random)
        for labelled in (y[rows], flip.drawn_labels(flip.softmax(plain[rows]), random)):
            found = flip.flip_rates(near, labelled, g[rows], held, start=flips, rounds=20)
            tried.append((np.exp(near), labelled, g[rows], found))
    together = flip.drawn_together(flips.rates, [found.rates for *_, found in tried[::2]])
    counts = np.zeros((2 * draws, *shape))
    for count, (likelihood, labelled, grouped, found) in zip(counts, tried, strict=True):
        chances = flip.posterior_of(likelihood, labelled, grouped, found.shares, flip.moved(found.rates, together))
        sums = flip.sums_by_cell(chances, labelled, grouped, shape[0])  # [G, given, true]
        count[:] = given * (1 - np.diagonal(sums, axis1=1, axis2=2) / np.maximum(sums.sum(axis=2), 1e-12))
    rates = flip.moved(flips.rates, together)
    posterior = flip.posterior_of(np.exp(clear), y, g, flips.shares, rates)
    return LabelNoise(
        y, g, posterior, wrong=1.0 - posterior[np.arange(len(y)), y], suggested=posterior.argmax(axis=1),
        by_inputs=plain.argmax(axis=1), rates=rates, shares=flips.shares, drawn=counts[::2], by_chance=counts[1::2],
    )  # fmt: skip


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
