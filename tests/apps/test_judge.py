"""The rule, on predictions whose answer is known on paper."""

from __future__ import annotations

import numpy as np
import pytest

from fairweight.apps.judge import Goal, Judgement, Rows, Score, choose, counted, gap_change, judged, near_constant
from fairweight.errors import BadInput
from fairweight.metrics.criterion import criterion

FAIR = criterion("equal-opportunity")


def rows(n: int = 4000) -> Rows:
    return Rows(np.tile([0, 1], n // 2), np.repeat([0, 1], n // 2), 2)


def said(at: Rows, rates: tuple[float, float], false: float = 0.1, seed: int = 0) -> np.ndarray:
    """Predictions with these true positive rates in the two groups."""
    draw = np.random.default_rng(seed).random(len(at.labels))
    return np.where(at.labels == 1, draw < np.array(rates)[at.groups], draw < false).astype(int)


def test_a_clear_improvement_is_taken_and_noise_is_not():
    at = rows()
    plain = said(at, (0.5, 0.9))
    better, same = said(at, (0.7, 0.7)), said(at, (0.51, 0.9), seed=1)
    goal = Goal(FAIR, budget=1)
    found = [judged(at, plain, other, goal) for other in (same, better)]
    assert not found[0].allowed
    assert found[1].allowed
    assert choose(Score.of(at, plain, FAIR), found, goal) == 1
    assert choose(Score.of(at, plain, FAIR), found[:1], goal) is None


@pytest.mark.parametrize("positives", [1, 4, 9, 10])
def test_a_rate_on_fewer_than_ten_rows_neither_wins_nor_loses(positives):
    """A third group has so few positives; all of them are found, or none."""
    at = rows()
    small = Rows(np.r_[at.labels, [1] * positives, [0] * 40], np.r_[at.groups, [2] * (positives + 40)], 2)
    uneven, even = said(at, (0.5, 0.9)), said(at, (0.7, 0.7))

    def with_small(big: np.ndarray, found: int) -> np.ndarray:
        return np.r_[big, [found] * positives, [0] * 40]

    goal = Goal(FAIR, budget=1)
    won = judged(small, with_small(even, 0), with_small(even, 1), goal)
    lost = judged(small, with_small(uneven, 1), with_small(even, 0), goal)
    few = positives < 10
    assert won.allowed == (not few)
    assert lost.allowed == few
    assert lost.score.gap == pytest.approx(judged(at, uneven, even, goal).score.gap if few else 0.7, abs=0.03)
    assert FAIR.few(counted(small, with_small(even, 0))) == [2] * few


def test_what_costs_more_than_the_budget_is_not_taken():
    at = rows()
    plain, dear = said(at, (0.5, 0.9)), said(at, (0.5, 0.5))
    assert choose(Score.of(at, plain, FAIR), [judged(at, plain, dear, Goal(FAIR))], Goal(FAIR)) is None
    assert judged(at, plain, dear, Goal(FAIR)).change[2] < 0


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_predictor_is_never_chosen(constant):
    at = rows()
    plain, nobody = said(at, (0.5, 0.9)), np.full(len(at.labels), constant)
    goal = Goal(FAIR, budget=100)
    found = judged(at, plain, nobody, goal)
    assert found.score.gap == 0
    assert found.constant
    assert choose(Score.of(at, plain, FAIR), [found], goal) is None


def test_shares_of_positives_have_limits():
    plain = Score(0.9, 0.6, 0.06, 0.1)
    assert near_constant(Score(0.9, 0.6, 0.02, 0.0), plain)
    assert near_constant(Score(0.9, 0.7, 0.13, 0.0), plain)
    assert not near_constant(Score(0.9, 0.59, 0.05, 0.0), plain)
    assert near_constant(Score(0.9, 0.57, 0.05, 0.0), plain)


def test_who_gives_up_more_accuracy_may_lose_more_balanced_accuracy_but_not_half_of_what_it_tells():
    plain = Score(0.86, 0.78, 0.2, 0.18)
    assert [Goal(FAIR, budget=b).margin(plain, 2) for b in (0.1, 0.3, 0.6)] == pytest.approx([2, 2, 4])
    assert Goal(FAIR, bound=5).margin(plain, 2) == pytest.approx(14), "half of what 78 has above 50"
    assert Goal(FAIR, budget=50).margin(Score(0.9, 0.52, 0.2, 0.1), 2) == 2


def test_a_bound_takes_the_most_accurate_that_keeps_it():
    def one(accuracy: float, gap: float) -> Judgement:
        return Judgement(Score(accuracy, 0.7, 0.3, gap), (gap - 0.2, gap - 0.25, gap - 0.15), False, True)

    found = [one(0.80, 0.01), one(0.82, 0.019), one(0.84, 0.05)]
    plain = Score(0.85, 0.7, 0.3, 0.2)
    assert choose(plain, found, Goal(FAIR, bound=2)) == 1
    assert choose(plain, found, Goal(FAIR, bound=0.5)) == 0, "none keeps it: the smallest gap"
    assert choose(plain, found, Goal(FAIR, bound=25)) is None, "plain training keeps it"
    with pytest.raises(BadInput):
        Goal(FAIR, bound=-1)


def test_the_interval_covers_what_resampling_rows_gives():
    at = rows(600)
    plain, other = said(at, (0.5, 0.8)), said(at, (0.6, 0.7), seed=3)
    value, low, high = gap_change(at, plain, other, FAIR)
    draw = np.random.default_rng(1)
    slow = []
    for _ in range(800):  # the slow twin: rows drawn one by one
        pick = draw.integers(len(at.labels), size=len(at.labels))
        part = Rows(at.labels[pick], at.groups[pick], 2)
        slow.append(Score.of(part, other[pick], FAIR).gap - Score.of(part, plain[pick], FAIR).gap)
    assert value == pytest.approx(Score.of(at, other, FAIR).gap - Score.of(at, plain, FAIR).gap)
    np.testing.assert_allclose([low, high], np.quantile(slow, [0.025, 0.975]), atol=0.03)
