"""The grid of flip rates beside slow twins, and on toy data whose answer is known on paper."""

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.metrics.test_label_noise import area, drawn, flipped

from fairweight.metrics import flip_grid as grid
from fairweight.metrics.label_noise import label_noise


def odds_of(logits):
    return logits[:, 1] - logits[:, 0]


@pytest.mark.parametrize(("u", "v"), [(0.0, 0.0), (0.105, 0.2), (0.3, 0.02)])
def test_the_curve_of_a_pair_of_rates_is_the_one_that_a_minimiser_finds_row_by_row(u, v):
    logits, true, groups = drawn(3_000, 0.4, 0, apart=1.5)
    given, said = flipped(true, groups, [[0.1, 0.2]], 1), odds_of(logits)
    i, j = (int(np.abs(grid.RATES - rate).argmin()) for rate in (u, v))
    u, v = grid.RATES[i], grid.RATES[j]
    start = max(1 - u - v, 0.2) ** -0.5

    def loss(value):
        chance = u + (1 - u - v) / (1 + np.exp(-value[0] * said - value[1]))
        chance = np.where(given == 1, chance, 1 - chance).clip(1e-9)
        pull = grid.SCALE_PULL * start**2 * np.log(value[0] / start) ** 2
        return -np.log(chance).sum() + pull / 2 + 0.25 * value[1] ** 2

    scale, bias = minimize(loss, [start, 0.0], bounds=[(0.05, None), (None, None)]).x
    part = grid._binned(said, given)
    assert part.scale[i, j] == pytest.approx(scale, abs=0.03)
    assert part.bias[i, j] == pytest.approx(bias, abs=0.03)


def test_the_four_ways_are_weighed_as_a_sum_over_all_pairs_of_both_groups_says():
    """Every rate of both groups, one after another: the posterior of the first group's pairs, the slow way."""
    random = np.random.default_rng(0)
    fits = {0: 3 * random.normal(size=grid.U.shape), 1: 3 * random.normal(size=grid.U.shape)}
    edges = np.concatenate([[0.0], (grid.RATES[1:-1] + grid.RATES[2:]) / 2, [grid.RATES[-1]]])
    prior = np.diff((1 - (1 - edges) ** grid.DECAY) / (1 - (1 - edges[-1]) ** grid.DECAY))
    prior = np.concatenate([[grid.ZERO_RATE], (1 - grid.ZERO_RATE) * prior])
    likely, many = {g: np.exp(fit) * grid.POSSIBLE for g, fit in fits.items()}, range(len(prior))
    found = np.zeros_like(grid.U)
    for i in many:
        found[i, i] += prior[i] * likely[0][i, i] * likely[1][i, i]
        found[i, i] += sum(prior[i] * prior[j] * likely[0][i, i] * likely[1][j, j] for j in many)
        for j in many:
            both = prior[i] * prior[j] * likely[0][i, j]
            found[i, j] += both * likely[1][i, j] + both * (np.outer(prior, prior) * likely[1]).sum()
    weights = grid._weights(fits)
    assert weights[0].mean == pytest.approx(found / found.sum())
    drawn_places = grid._sampled(weights, 20_000)[0]
    assert grid.U.ravel()[drawn_places].mean() == pytest.approx((weights[0].mean * grid.U).sum(), abs=0.003)


def test_counts_drawn_for_the_interval_are_those_of_the_rows():
    logits, true, groups = drawn(5_000, 0.3, 0, groups=2)
    given = flipped(true, groups, [[0.0, 0.0], [0.1, 0.3]], 1)
    trusted, ty, tg = drawn(300, 0.5, 2, groups=2)
    found = grid.flip_grid(odds_of(logits), given, groups, odds_of(trusted), ty, tg, 4_000)
    for group in (0, 1):
        for label in (0, 1):
            here = (groups == group) & (given == label)
            assert found.drawn[:, group, label].mean() == pytest.approx(found.wrong[here].sum(), rel=0.05, abs=5)


@pytest.mark.parametrize("rates", [[[0.2, 0.2]] * 2, [[0.2, 0.2], [0.0, 0.0]], [[0.0, 0.2]] * 2])
@pytest.mark.parametrize("count", [60, 600])
def test_wrong_labels_are_counted_where_inputs_all_but_determine_the_label(rates, count):
    """The model's opinion is far flatter than the truth: a step, seen through a model of given labels."""
    random = np.random.default_rng(count)

    def seen(size):
        place, groups = random.normal(size=size), random.integers(0, 2, size)
        true = (random.random(size) < 1 / (1 + np.exp(-30 * (place - 0.5)))).astype(int)
        up, down = np.array(rates)[groups].T
        chance = up + (1 - up - down) / (1 + np.exp(-4 * (place - 0.5 + 0.1 * random.normal(size=size))))
        return np.log(chance / (1 - chance)), true, groups

    said, true, groups = seen(6_000)
    given = flipped(true, groups, rates, 1)
    trusted, ty, tg = seen(count)
    noise, wrong = label_noise(said, given, trusted, ty, groups=groups, trusted_groups=tg), (given != true).sum()
    assert noise.count().value == pytest.approx(wrong, rel=0.08)
    assert noise.count().low <= wrong <= noise.count().high


def test_the_interval_has_the_chance_of_each_row_where_rates_are_known():
    """One pair of rates alone: the spread is that of as many draws as there are rows."""
    part = grid._binned(np.linspace(-3, 3, 400), (np.arange(400) % 3 == 0).astype(int))
    mean, spread = grid._expected(part)
    i, j = 8, 12
    q = part.positive(part.odds)[:, i, j]
    zero, one = grid._wrong_chances(q, grid.U[i, j], grid.V[i, j])
    place = i * len(grid.RATES) + j
    for label, chance in enumerate((zero, one)):
        draws = (
            np.random.default_rng(0).binomial(part.rows[label].astype(int), chance, (20_000, len(chance))).sum(axis=1)
        )
        assert mean[label, place] == pytest.approx(draws.mean(), rel=0.02)
        assert spread[label, place] == pytest.approx(draws.std(), rel=0.03)


@pytest.mark.parametrize("count", [20, 40, 100])
@pytest.mark.parametrize("seed", range(3))
def test_few_trusted_rows_do_not_blame_a_cell_for_noise_that_is_everywhere(count, seed):
    """Inputs that say little, and as many trusted rows of each cell: the order is that of the opinion, or nearly."""
    logits, true, groups = drawn(4_000, 0.25, 10 * seed, groups=2, apart=1.5)
    given = flipped(true, groups, [[0.2, 0.2]] * 2, 10 * seed + 2)
    pool, ty, tg = drawn(2_000, 0.5, 10 * seed + 1, groups=2, apart=1.5)
    rows = np.concatenate([np.flatnonzero((ty == y) & (tg == g))[: count // 4] for y in (0, 1) for g in (0, 1)])
    prior = np.log([0.75, 0.25])
    noise = label_noise(logits + prior, given, pool[rows] + prior, ty[rows], groups=groups, trusted_groups=tg[rows])
    own = odds_of(logits + prior) * np.where(given == 1, 1, -1)
    assert area(given != true, noise.wrong) > area(given != true, -own) - 0.02
    assert noise.count().low <= (given != true).sum() <= noise.count().high


def test_a_group_without_a_trusted_row_is_judged_by_the_others():
    logits, true, groups = drawn(6_000, 0.3, 0, groups=3)
    given = flipped(true, groups, [[0.15, 0.15]] * 3, 1)
    trusted, ty, tg = drawn(600, 0.5, 2, groups=2)  # none of the third
    noise = label_noise(logits, given, trusted, ty, groups=groups, trusted_groups=tg)
    wrong = (given != true)[groups == 2].sum()
    assert noise.count(group=2).low <= wrong <= noise.count(group=2).high
    assert noise.count(group=2).value == pytest.approx(wrong, rel=0.15)


def test_two_fifths_of_all_labels_may_be_wrong():
    logits, true, groups = drawn(6_000, 0.4, 0, groups=2)
    given = flipped(true, groups, [[0.4, 0.4]] * 2, 1)
    trusted, ty, tg = drawn(400, 0.4, 2, groups=2)
    noise = label_noise(logits, given, trusted, ty, groups=groups, trusted_groups=tg)
    assert noise.count().value == pytest.approx((given != true).sum(), rel=0.05)
    assert (noise.suggested == true).mean() > 0.85


def test_a_label_that_no_row_has_and_sets_of_a_few_rows_are_no_error():
    logits, true, groups = drawn(30, 0.5, 0, groups=2)
    trusted, ty, tg = drawn(6, 0.5, 1, groups=2)
    for given in (true, np.zeros_like(true), np.ones_like(true)):
        noise = label_noise(logits, given, trusted, ty, groups=groups, trusted_groups=tg)
        assert np.isfinite(noise.wrong).all()
        assert noise.count().low == 0.0
