"""Calibration by group, with answers on paper."""

from __future__ import annotations

import numpy as np
import pytest

from fairweight.metrics.calibration import calibration_by_group


def test_each_group_has_its_own_error():
    """Of group a, 0.8 comes true 8 times in 10 and 0.2 twice; group b is told 0.8 and 0.2 and always gets 1 in 2."""
    chance = np.tile(np.repeat([0.8, 0.2], 10), 2)
    labels = np.concatenate([[1] * 8 + [0] * 2 + [1] * 2 + [0] * 8, [1, 0] * 10])
    groups = np.repeat([0, 1], 20)
    found = calibration_by_group(np.stack([1 - chance, chance], axis=1), labels, groups, ("a", "b"))
    assert found["a"] == pytest.approx({"n": 20, "predicted": 0.5, "observed": 0.5, "error": 0.0}, abs=1e-12)
    assert found["b"] == pytest.approx({"n": 20, "predicted": 0.5, "observed": 0.5, "error": 0.3})


def test_of_several_classes_the_predicted_one_counts_and_unknown_groups_do_not():
    chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    found = calibration_by_group(chances, np.array([0, 1, 0]), np.array([0, 0, -1]), ("only",))
    assert found["only"]["n"] == 2
    assert found["only"]["predicted"] == pytest.approx(0.65)
    assert found["only"]["observed"] == 1
    every = calibration_by_group(chances, np.array([0, 1, 0]), None)
    assert every["all"]["observed"] == pytest.approx(2 / 3)
