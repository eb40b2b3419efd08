"""Planted flips on toy data whose answer is known on paper."""

import time

import numpy as np
import pytest

from fairweight.errors import BadInput
from fairweight.metrics.flip_rates import anchor_of, calibrate, drawn_at_random, posterior_of, shrinkage
from fairweight.metrics.label_noise import label_noise

APART = 3.0  # logits of two normal classes whose means lie this far apart: z has slope APART


def drawn(n, share, seed, groups=1, apart=APART):
    """Two classes of one normal feature, the exact log-odds as logits, and groups at random."""
    random = np.random.default_rng(seed)
    labels = (random.random(n) < share).astype(int)
    x = random.normal(size=n) + apart * (labels - 0.5)
    log_odds = apart * x  # log p(x | 1) / p(x | 0), for unit variance and means at ± apart / 2
    return np.stack([-log_odds / 2, log_odds / 2], axis=1), labels, random.integers(0, groups, n)


def flipped(labels, groups, rates, seed):
    """rates[group][label]: how often that true label is written down as the other."""
    random = np.random.default_rng(seed)
    chance = np.array(rates)[groups, labels]
    return np.where(random.random(len(labels)) < chance, 1 - labels, labels)


RATES = [[0.0, 0.0], [0.1, 0.3]]


@pytest.mark.parametrize("even", [True, False])
def test_planted_flip_rates_are_recovered_by_label_and_group(even):
    logits, true, groups = drawn(20_000, 0.3, 0, groups=2)
    given = flipped(true, groups, RATES, 1)
    trusted, ty, tg = drawn(1_000, 0.5 if even else 0.3, 2, groups=2)
    noise = label_noise(logits, given, trusted, ty, groups=groups, trusted_groups=tg)
    for group in (0, 1):
        for label in (0, 1):
            assert noise.rates[group, label, 1 - label] == pytest.approx(RATES[group][label], abs=0.05)
    wrong = given != true
    assert noise.count().low <= wrong.sum() <= noise.count().high
    assert noise.count(group=1).value == pytest.approx(wrong.sum(), rel=0.2)
    assert noise.count(group=0).low == 0.0


def test_logits_that_learned_the_flips_are_calibrated_back():
    """A model that was trained on flipped labels speaks too rarely of the label that lost; trusted rows undo that."""
    logits, true, groups = drawn(10_000, 0.3, 0)
    trusted, ty, _ = drawn(600, 0.5, 2)
    given = flipped(true, groups, [[0.0, 0.3]], 1)
    honest = label_noise(logits, given, trusted, ty).rates
    shifted = np.array([0.8, 0.0])
    assert label_noise(0.5 * logits + shifted, given, 0.5 * trusted + shifted, ty).rates == pytest.approx(
        honest, abs=0.03
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("apart", [1.5, 3.0])
def test_on_clean_labels_the_interval_of_the_count_reaches_zero(seed, apart):
    logits, true, groups = drawn(4_000, 0.25, 10 * seed, groups=2, apart=apart)
    trusted, ty, tg = drawn(300, 0.25, 10 * seed + 1, groups=2, apart=apart)
    noise = label_noise(logits, true, trusted, ty, groups=groups, trusted_groups=tg)
    assert noise.count().low == 0.0
    assert noise.looks_wrong.mean() < 0.02


def test_the_posterior_is_a_chance_and_the_suggestion_the_true_label():
    """Over four draws of the data: one has about 500 rows between a half and nine tenths, 0.02 of standard error."""
    wrong, chance = np.zeros((4, 20_000), dtype=bool), np.zeros((4, 20_000))
    for k in range(4):
        logits, true, groups = drawn(20_000, 0.5, 10 * k, apart=4.0)
        given = flipped(true, groups, [[0.2, 0.2]], 10 * k + 1)
        trusted, ty, _ = drawn(2_000, 0.5, 10 * k + 2, apart=4.0)
        noise = label_noise(logits, given, trusted, ty)
        wrong[k], chance[k] = given != true, noise.wrong
        assert (noise.suggested[noise.looks_wrong] == true[noise.looks_wrong]).mean() > 0.9
    for low, high in ((0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (chance > low) & (chance <= high)
        assert wrong[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.03)


def test_hard_labels_are_told_from_wrong_ones():
    """Classes that overlap and no flips: many inputs speak for the other label, and none of their labels is wrong."""
    logits, true, _ = drawn(5_000, 0.5, 0, apart=1.0)
    trusted, ty, _ = drawn(1_000, 0.5, 1, apart=1.0)
    noise = label_noise(logits, true, trusted, ty)
    assert noise.is_hard.mean() > 0.2
    assert noise.looks_wrong.mean() < 0.02
    assert not (noise.is_hard & noise.looks_wrong).any()


def test_the_posterior_is_that_of_bayes_where_rates_and_shares_are_given():
    evidence = np.log(np.array([[0.9, 0.1], [0.2, 0.8]]))
    labels, groups = np.array([1, 0]), np.zeros(2, dtype=int)
    shares, _ = anchor_of(np.array([[50.0, 50.0]]), np.array([[30.0, 10.0]]), random=True)
    rates = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    found = posterior_of(np.exp(evidence), labels, groups, shares, rates)
    for row, (own, given) in enumerate(zip(np.exp(evidence), labels, strict=True)):
        joint = own * shares[0] * np.where(np.arange(2) == given, 0.9, 0.1)
        assert found[row] == pytest.approx(joint / joint.sum())


def test_many_labels_flip_to_any_other():
    random = np.random.default_rng(0)
    k, n = 5, 6_000
    true = random.integers(0, k, n)
    logits = 4.0 * np.eye(k)[true] + random.normal(size=(n, k))
    given = np.where(random.random(n) < 0.2, (true + random.integers(1, k, n)) % k, true)
    trusted = random.integers(0, k, 300)
    noise = label_noise(logits, given, 4.0 * np.eye(k)[trusted] + random.normal(size=(300, k)), trusted)
    assert noise.count().value == pytest.approx((given != true).sum(), rel=0.1)
    assert (noise.suggested == true).mean() > 0.98


def test_few_trusted_rows_leave_logits_almost_as_they_are():
    said, at = np.array([[1.0, -1.0], [0.0, 0.0]]), np.zeros(2, dtype=int)
    found = calibrate(said, at, np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([0, 1]), at, 1)
    assert np.diff(found).ravel() == pytest.approx([-2.0, 0.0], abs=0.6)


def test_one_logit_is_that_of_the_positive_label():
    logits, true, _ = drawn(500, 0.5, 0)
    one = (logits[:, 1] - logits[:, 0])[:, None]
    both = label_noise(np.concatenate([0 * one, one], axis=1), true, logits[:100], true[:100])
    assert label_noise(one, true, logits[:100], true[:100]).wrong == pytest.approx(both.wrong)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": [0, 1, 5]}, "labels are numbers from 0 to 1"),
        ({"labels": [0, 1]}, "one row for each"),
        ({"logits": [[0, np.inf]] * 3}, "no finite numbers"),
        ({"trusted_logits": [[0, 1]], "trusted_labels": [1]}, "1 trusted rows for 2 labels"),
    ],
)
def test_what_cannot_be_estimated_is_refused(change, says):
    given = {
        "logits": [[0, 1]] * 3,
        "labels": [0, 1, 1],
        "trusted_logits": [[0, 1], [1, 0]],
        "trusted_labels": [1, 0],
    } | change
    with pytest.raises(BadInput, match=says):
        label_noise(**given)


@pytest.mark.slow
def test_fifty_thousand_rows_take_less_than_two_seconds():
    logits, true, groups = drawn(50_000, 0.3, 0, groups=2)
    given = flipped(true, groups, RATES, 1)
    trusted, ty, tg = drawn(600, 0.5, 2, groups=2)
    started = time.process_time()
    label_noise(logits, given, trusted, ty, groups=groups, trusted_groups=tg)
    assert time.process_time() - started < 2.0


def test_rates_that_differ_by_no_more_than_chance_are_drawn_together_and_others_stay():
    random = np.random.default_rng(0)

    def whole(wrong):  # [..., K, K] from how often each label is wrong
        return np.eye(2) + wrong[..., None] * np.array([[-1, 1], [1, -1]])

    rates = np.array([[0.1, 0.3], [0.15, 0.25]])
    blurred = rates + random.normal(size=(40, 2, 2)) * 0.3
    together = shrinkage(whole(rates), whole(blurred.clip(0, 1)))
    assert together.sum(axis=1) == pytest.approx(1.0)  # equal rates stay as they are
    assert np.ptp(together @ rates.ravel()) < 0.3 * np.ptp(rates)
    sharp = rates + random.normal(size=(40, 2, 2)) * 1e-4
    far = np.array([[0.0, 0.0], [0.2, 0.4]])
    angles = np.arcsin(np.sqrt(far.ravel()))
    assert shrinkage(whole(far), whole(sharp)) @ angles == pytest.approx(angles, abs=0.02)


def test_uniform_noise_is_ranked_as_by_the_opinion_itself():
    """Noise that is everywhere alike has no cell to find: the chance of the given label is the best order."""
    logits, true, groups = drawn(3_000, 0.3, 5, groups=2, apart=2.0)
    given = flipped(true, groups, [[0.2, 0.2]] * 2, 6)
    trusted, ty, tg = drawn(600, 0.5, 7, groups=2, apart=2.0)
    prior = np.log([0.7, 0.3])
    noise = label_noise(logits + prior, given, trusted + prior, ty, groups=groups, trusted_groups=tg)
    own = (logits + prior)[np.arange(len(given)), given] - (logits + prior)[np.arange(len(given)), 1 - given]
    assert area(given != true, noise.wrong) > area(given != true, -own) - 0.015


def area(wrong, suspicion):
    places = suspicion.argsort().argsort() + 1.0
    return (places[wrong].sum() - wrong.sum() * (wrong.sum() + 1) / 2) / (wrong.sum() * (~wrong).sum())


@pytest.mark.parametrize(
    ("trusted", "by_inputs", "random"),
    [
        ([[70, 10], [15, 5]], [0.85, 0.15], True),  # groups and labels as in train
        ([[25, 25], [25, 25]], [0.5, 0.5], False),  # even
        ([[40, 10], [40, 10]], [0.8, 0.2], False),  # groups are not as common as in train
        ([[40, 40], [12, 8]], [0.85, 0.15], False),  # labels are not: no random draw, though uneven
        ([[40, 8], [40, 12]], [0.8, 0.2], False),  # an even draw that ran short of some cells
    ],
)
def test_a_random_draw_of_trusted_rows_has_natural_groups_and_labels(trusted, by_inputs, random):
    given = np.array([[700.0, 100.0], [150.0, 50.0]])
    assert drawn_at_random(given, np.array(trusted, dtype=float), np.array(by_inputs)) is random
