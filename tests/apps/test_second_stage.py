"""Thresholds by group close a gap that a score has by construction."""

from __future__ import annotations

import numpy as np

from fairweight.apps.judge import Goal, Rows, Score
from fairweight.apps.second_stage import even_recalls, moved, stages, thresholds
from fairweight.metrics.criterion import criterion


def test_a_score_that_is_shifted_for_one_group_is_shifted_back():
    draw = np.random.default_rng(0)
    labels, groups = draw.integers(2, size=6000), draw.integers(2, size=6000)
    score = 2 * labels - 1 + draw.normal(size=6000) - 1.5 * groups  # group 1 is scored too low
    chances = 1 / (1 + np.exp(-np.stack([-score, score], axis=1)))
    rows, fair = Rows(labels, groups, 2), criterion("equal-opportunity")
    before = Score.of(rows, chances.argmax(axis=1), fair)
    up = thresholds(chances, rows, Goal(fair, budget=0.3), 2)
    after = Score.of(rows, moved(chances, groups, up).argmax(axis=1), fair)
    assert before.gap > 0.3
    assert after.gap < 0.02
    assert after.accuracy > before.accuracy


def test_parts_of_the_way_to_even_thresholds_close_parts_of_the_gap():
    draw = np.random.default_rng(0)
    labels, groups, fold = draw.integers(2, size=6000), draw.integers(2, size=6000), np.arange(6000) % 5
    score = 2 * labels - 1 + draw.normal(size=6000) - 1.5 * groups
    chances = 1 / (1 + np.exp(-np.stack([-score, score], axis=1)))
    rows, fair = Rows(labels, groups, 2), criterion("equal-opportunity")
    made = list(stages(chances, rows, Goal(fair), fold, range(5), by_group=True))
    assert [name for name, _, _ in made] == [f"thresholds-{part}" for part in ("0.25", "0.5", "0.75", "1")]
    gaps = [Score.of(rows, found.argmax(axis=1), fair).gap for _, found, _ in made]
    assert gaps == sorted(gaps, reverse=True)
    np.testing.assert_allclose(made[0][2], made[3][2] / 4)


def test_thresholds_keep_to_the_budget_where_the_whole_gap_would_cost_more():
    draw = np.random.default_rng(0)
    labels, groups = draw.integers(2, size=8000), draw.integers(2, size=8000)
    score = (2 * labels - 1) * np.where(groups, 0.3, 2.0) + draw.normal(size=8000) - 0.4 * groups  # 1: hardly told
    chances = 1 / (1 + np.exp(-np.stack([-score, score], axis=1)))
    rows, fair = Rows(labels, groups, 2), criterion("equal-opportunity")
    before = Score.of(rows, chances.argmax(axis=1), fair)
    up = thresholds(chances, rows, Goal(fair, budget=0.3), 2)
    after = Score.of(rows, moved(chances, groups, up).argmax(axis=1), fair)
    assert 100 * (before.accuracy - after.accuracy) <= 0.35
    assert after.gap < before.gap


def test_a_class_that_is_scored_too_low_is_raised():
    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=6000)
    logits = 2 * np.eye(3)[labels] + draw.normal(size=(6000, 3)) - np.array([0, 0, 1.5])
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows, fair = Rows(labels, None, 3), criterion("recall-parity")
    up = even_recalls(chances, rows, Goal(fair))
    after = Score.of(rows, moved(chances, None, up).argmax(axis=1), fair)
    assert Score.of(rows, chances.argmax(axis=1), fair).gap > 0.2
    assert after.gap < 0.03
    np.testing.assert_allclose(up[0, 2] - up[0, :2], 1.5, atol=0.3)


def test_a_group_of_few_positives_keeps_its_threshold():
    draw = np.random.default_rng(0)
    labels, groups = draw.integers(2, size=4000), draw.integers(2, size=4000)
    labels, groups = np.r_[labels, [1] * 4, [0] * 20], np.r_[groups, [2] * 24]
    score = 2 * labels - 1 + draw.normal(size=4024) - 1.5 * groups
    chances = 1 / (1 + np.exp(-np.stack([-score, score], axis=1)))
    up = thresholds(chances, Rows(labels, groups, 2), Goal(criterion("equal-opportunity"), budget=0.3), 3)
    assert up[1, 1] > 0.5
    assert up[2, 1] == 0
