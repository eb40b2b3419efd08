"""Thresholds by group close a gap that a score has by construction."""

from __future__ import annotations

import numpy as np

from fairweight.apps.judge import Rows, Score, Wish
from fairweight.apps.second_stage import even_recalls, moved, thresholds
from fairweight.metrics.criterion import criterion


def test_a_score_that_is_shifted_for_one_group_is_shifted_back():
    draw = np.random.default_rng(0)
    labels, groups = draw.integers(2, size=6000), draw.integers(2, size=6000)
    score = 2 * labels - 1 + draw.normal(size=6000) - 1.5 * groups  # group 1 is scored too low
    chances = 1 / (1 + np.exp(-np.stack([-score, score], axis=1)))
    rows, fair = Rows(labels, groups, 2), criterion("equal-opportunity")
    before = Score.of(rows, chances.argmax(axis=1), fair)
    up = thresholds(chances, rows, Wish(fair, budget=0.3), 2)
    after = Score.of(rows, moved(chances, groups, up).argmax(axis=1), fair)
    assert before.gap > 0.3
    assert after.gap < 0.02
    assert after.accuracy > before.accuracy


def test_a_class_that_is_scored_too_low_is_raised():
    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=6000)
    logits = 2 * np.eye(3)[labels] + draw.normal(size=(6000, 3)) - np.array([0, 0, 1.5])
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows, fair = Rows(labels, None, 3), criterion("recall-parity")
    up = even_recalls(chances, rows, Wish(fair))
    after = Score.of(rows, moved(chances, None, up).argmax(axis=1), fair)
    assert Score.of(rows, chances.argmax(axis=1), fair).gap > 0.2
    assert after.gap < 0.03
    np.testing.assert_allclose(up[0, 2] - up[0, :2], 1.5, atol=0.3)
