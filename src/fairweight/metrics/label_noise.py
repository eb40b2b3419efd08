"""How many labels are wrong, and which: flip rates per (label, group), estimated beside rows that are trusted.

A model's logits say which label an input looks like. On trusted rows, whose labels are right, that opinion is
calibrated: what it is worth as evidence, log p(x | label) up to a constant, with how common a label is among the
trusted rows taken out, so that they may be drawn evenly or at random. EM on the other rows then finds, for each group,
how common each true label is and how often it was written down as another one; and for each row the chance that
another label than the given one is true.

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
from fairweight.metrics.intervals import Estimate

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

DRAWS = 30  # of the bootstrap
ROWS_AT_A_DRAW = 1_500
ROUNDS, TOLERANCE = 300, 1e-4
STAYS = 2.0  # pseudo-counts of a true label that was written down right, in each group
POOLED = 10.0  # pseudo-counts of flips as all groups together show them
ANCHOR = 50.0  # trusted rows of a group at which inputs say as much of the true labels' shares as the given labels
# A resampling cannot see that a model repeats some of the labels it was trained on; chosen on Adult and digits.
WIDER = 1.5
TRUSTED_SHARES = 0.8  # weight of the trusted rows' own shares, where they were drawn at random
_PULL = {"scale": 1.0, "bias": 1.0, "by_group": 4.0}  # how strongly calibration is held at the logits as they are


@dataclass(frozen=True)
class Calibration:
    """What a logit is worth as evidence for a label: scale · logit + bias of the label, and of the label in a group."""

    scale: float
    bias: Floats  # [K]
    by_group: Floats  # [G, K]

    def evidence(self, logits: Floats, groups: Ints) -> Floats:
        """Log-likelihood of each label, up to a constant per row."""  # [N, K]
        scores: Floats = self.scale * logits + self.bias + self.by_group[groups]
        found: Floats = scores - scores.max(axis=1, keepdims=True)
        return found


def calibrate(logits: Floats, labels: Ints, groups: Ints, num_groups: int, rounds: int = 25) -> Calibration:
    """Fit evidence to trusted rows by Newton's method; few rows leave the logits almost as they are."""
    n, k = logits.shape
    hot = np.eye(k)[labels]  # [M, K]
    prior = np.ones((num_groups, k))
    np.add.at(prior, (groups, labels), 1.0)
    offset = np.log(prior / prior.sum(axis=1, keepdims=True))[groups]  # [M, K]
    # Parameters: scale, bias [K], by group [G K]; penalties hold what the rows do not decide.
    size = 1 + k + num_groups * k
    penalty = np.concatenate([[_PULL["scale"]], np.full(k, _PULL["bias"]), np.full(num_groups * k, _PULL["by_group"])])
    target = np.zeros(size)
    target[0] = 1.0
    value = target.copy()
    member = np.zeros((n, num_groups))
    member[np.arange(n), groups] = 1.0
    for _ in range(rounds):
        scores = value[0] * logits + value[1 : 1 + k] + (member @ value[1 + k :].reshape(num_groups, k)) + offset
        chance = _softmax(scores)
        slope = chance - hot  # [M, K]
        gradient = np.concatenate([[(slope * logits).sum()], slope.sum(axis=0), (member.T @ slope).ravel()])
        gradient += penalty * (value - target)
        curve = np.diag(penalty)
        mean = (chance * logits).sum(axis=1)
        curve[0, 0] += (chance * logits**2).sum() - (mean**2).sum()
        cross = chance * (logits - mean[:, None])  # [M, K]
        curve[0, 1 : 1 + k] += cross.sum(axis=0)
        curve[0, 1 + k :] += (member.T @ cross).ravel()
        blocks = np.einsum("gk,kl->gkl", member.T @ chance, np.eye(k)) - np.einsum(
            "mg,mk,ml->gkl", member, chance, chance, optimize=True
        )
        curve[1 : 1 + k, 1 : 1 + k] += blocks.sum(axis=0)
        for g in range(num_groups):
            at = slice(1 + k + g * k, 1 + k + (g + 1) * k)
            curve[at, at] += blocks[g]
            curve[1 : 1 + k, at] += blocks[g]
        curve = np.triu(curve) + np.triu(curve, 1).T
        step = np.linalg.solve(curve, gradient)
        value = value - step / max(1.0, float(np.abs(step).max()) / 2.0)  # a far start takes short steps
        if float(np.abs(step).max()) < 1e-8:
            break
    return Calibration(max(float(value[0]), 0.0), value[1 : 1 + k], value[1 + k :].reshape(num_groups, k))


def _softmax(scores: Floats) -> Floats:
    lifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Floats = lifted / lifted.sum(axis=1, keepdims=True)
    return found


@dataclass(frozen=True)
class Flips:
    """What EM found: shares of true labels, flip rates, and each row's chances of its true label."""

    shares: Floats  # [G, K]
    rates: Floats  # [G, K, K] row: true label, column: given label
    posterior: Floats  # [N, K]


@dataclass(frozen=True)
class Anchor:
    """Where the shares of true labels are held, and how firmly."""

    shares: Floats  # [G, K]
    weight: Floats  # [G] from 0 (inputs alone decide) to 1


def anchor_of(given: Floats, trusted: Floats) -> Anchor:
    """Anchor by counts of labels in each group [G, K].

    Trusted rows that were drawn at random show how common a true label is; those that were drawn evenly do not, and
    the given labels stand in for them, the more the fewer trusted rows there are.
    """
    size = trusted.sum(axis=1)
    if drawn_evenly(trusted):
        return Anchor((given + 1) / (given + 1).sum(axis=1, keepdims=True), ANCHOR / (ANCHOR + size))
    overall = (trusted.sum(axis=0) + 1) / (trusted.sum(axis=0) + 1).sum()  # [K] for groups with hardly any
    return Anchor((trusted + 5 * overall) / (size + 5)[:, None], np.full(len(size), TRUSTED_SHARES))


def drawn_evenly(trusted: Floats) -> bool:
    """True if every group has about as many trusted rows of each label, by counts [G, K]."""
    return bool((trusted.max(axis=1) <= 1.25 * np.maximum(trusted.min(axis=1), 1.0)).all())


def flip_rates(
    evidence: Floats,
    labels: Ints,
    groups: Ints,
    anchor: Anchor,
    *,
    start: Flips | None = None,
    rounds: int = ROUNDS,
) -> Flips:
    """EM over true labels, for given labels and log-likelihoods [N, K] of the inputs."""
    (g, k), likelihood = anchor.shares.shape, np.exp(evidence)
    if start is None:
        shares, rates = anchor.shares, np.full((g, k, k), 0.1 / max(1, k - 1))
        rates[:, np.arange(k), np.arange(k)] = 0.9
    else:
        shares, rates = start.shares, start.rates
    cell, firm, posterior = groups * k + labels, anchor.weight[:, None], likelihood
    for _ in range(rounds):
        before = rates
        joint = likelihood * (shares[:, :, None] * rates).transpose(0, 2, 1).reshape(g * k, k)[cell]  # [N, K]
        posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        sums = np.stack([np.bincount(cell, posterior[:, y], minlength=g * k) for y in range(k)], axis=1)
        counts: Floats = sums.astype(np.float64).reshape(g, k, k).transpose(0, 2, 1)  # [G, true, given]
        rates = _with_prior(counts)
        true = counts.sum(axis=2) + 1.0
        shares = (1 - firm) * true / true.sum(axis=1, keepdims=True) + firm * anchor.shares
        if float(np.abs(rates - before).max()) < TOLERANCE:
            break
    return Flips(shares, rates, posterior)


def _with_prior(counts: Floats) -> Floats:
    """Flip rates from counts [G, true, given], held at no flips, and at what all groups show where rows are few."""
    k = counts.shape[1]
    diagonal = np.arange(k)
    pooled = counts.sum(axis=0) + 1e-9
    pooled[diagonal, diagonal] += STAYS
    pooled /= pooled.sum(axis=1, keepdims=True)  # [true, given]
    spread = np.broadcast_to((1 - pooled[diagonal, diagonal])[:, None] / max(1, k - 1), (k, k)).copy()
    spread[diagonal, diagonal] = pooled[diagonal, diagonal]
    held = counts + POOLED * (pooled + spread) / 2
    held[:, diagonal, diagonal] += STAYS
    found: Floats = held / held.sum(axis=2, keepdims=True)
    return found


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
    def looks_wrong(self) -> npt.NDArray[np.bool_]:
        """True where another label is more probable than the given one."""  # [N]
        found: npt.NDArray[np.bool_] = self.suggested != self.labels
        return found

    @property
    def is_hard(self) -> npt.NDArray[np.bool_]:
        """True where the input speaks for another label, and the given one is still the more probable."""  # [N]
        found: npt.NDArray[np.bool_] = (self.preferred != self.labels) & ~self.looks_wrong
        return found

    def count(self, label: int | None = None, group: int | None = None, level: float = 0.95) -> Estimate:
        """How many labels are wrong, of a given label or group if named; the interval reaches 0 where none may be."""
        sizes = np.zeros(self.shares.shape)
        np.add.at(sizes, (self.groups, self.labels), 1.0)
        chosen = np.zeros_like(sizes)
        chosen[slice(None) if group is None else group, slice(None) if label is None else label] = 1.0
        inside = chosen[self.groups, self.labels] > 0
        value = float(self.wrong[inside].sum())
        drawn = (self.drawn * (sizes * chosen)).sum(axis=(1, 2))
        chance = (self.by_chance * (sizes * chosen)).sum(axis=(1, 2))
        n, tail = int(inside.sum()), (1 - level) / 2
        if not len(drawn):
            return Estimate(value, float("nan"), float("nan"), n)
        low = float(np.quantile(drawn, tail)) - float(np.quantile(chance, 1 - tail))
        high = float(np.quantile(drawn, 1 - tail))
        low, high = (value + WIDER * (limit - value) for limit in (min(low, value), max(high, value)))
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

    draws: resamplings behind the intervals.
    """
    evidence, y, g = _checked(logits, labels, groups)
    trusted, ty, tg = _checked(trusted_logits, trusted_labels, trusted_groups)
    k = evidence.shape[1]
    if trusted.shape[1] != k or len(ty) < k:
        raise BadInput(f"{len(ty)} trusted rows for {k} labels; give some of each, with the same labels.")
    count = int(max(g.max(), tg.max())) + 1
    there = _counts(ty, tg, count, k)
    anchor, even = anchor_of(_counts(y, g, count, k), there), drawn_evenly(there)
    found = calibrate(trusted, ty, tg, count)
    clear = found.evidence(evidence, g)
    random = np.random.default_rng(seed)
    part = random.permutation(len(y))[:ROWS_AT_A_DRAW]
    first = flip_rates(clear[part], y[part], g[part], anchor)
    flips = flip_rates(clear, y, g, anchor, start=first, rounds=30)
    plain = clear + np.log(flips.shares)[g]  # what the inputs say, without regard to the given label
    drawn: list[Floats] = []
    chance: list[Floats] = []
    for _ in range(draws):
        again = _resampled(tg * k + ty if even else np.zeros_like(ty), random)
        rows = random.integers(0, len(y), min(len(y), ROWS_AT_A_DRAW))
        near = calibrate(trusted[again], ty[again], tg[again], count, rounds=8).evidence(evidence[rows], g[rows])
        held = anchor_of(_counts(y, g, count, k), _counts(ty[again], tg[again], count, k))
        clean = (_softmax(plain[rows]).cumsum(axis=1) < random.random((len(rows), 1))).sum(axis=1).clip(max=k - 1)
        for given, kept in ((y[rows], drawn), (clean, chance)):
            again_flips = flip_rates(near, given, g[rows], held, start=flips, rounds=20)
            wrong = 1.0 - again_flips.posterior[np.arange(len(rows)), given]
            sizes = _counts(given, g[rows], count, k)
            sums = np.zeros((count, k))
            np.add.at(sums, (g[rows], given), wrong)
            kept.append(sums / np.maximum(sizes, 1.0))
    shape = (0, count, k)
    return LabelNoise(
        y,
        g,
        flips.posterior,
        flips.rates,
        flips.shares,
        plain.argmax(axis=1),
        np.stack(drawn) if drawn else np.zeros(shape),
        np.stack(chance) if chance else np.zeros(shape),
    )


def _resampled(strata: Ints, random: np.random.Generator) -> Ints:
    """Places drawn with replacement, as many of each stratum as there are."""  # [M]
    order = np.argsort(strata, kind="stable")
    _, first, sizes = np.unique(strata[order], return_index=True, return_counts=True)
    begin, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
    found: Ints = order[begin + (random.random(len(strata)) * size).astype(np.int64)]
    return found


def _counts(labels: Ints, groups: Ints, num_groups: int, num_labels: int) -> Floats:
    found: Floats = np.bincount(groups * num_labels + labels, minlength=num_groups * num_labels).astype(np.float64)
    return found.reshape(num_groups, num_labels)


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
