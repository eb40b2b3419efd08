"""A sample_weight of 1 for everybody changes nothing: the method counts its steps all the same."""

from __future__ import annotations

import numpy as np
import pytest

import fairweight as fw


def scores(every: int, sample_weight: np.ndarray | None) -> np.ndarray:
    rng = np.random.default_rng(0)
    group, y = rng.integers(2, size=120), rng.integers(2, size=120)
    x = rng.normal(size=(120, 3))
    x[:, 0] += y
    x[:, 1] += group
    made = fw.FairweightClassifier(epochs=3, batch_size=20, random_state=0, method_options={"every": every})
    return made.fit(x, y, sensitive_features=group, sample_weight=sample_weight).score_path_


@pytest.mark.parametrize(
    "every",
    [
        1,
        pytest.param(
            5,
            marks=pytest.mark.xfail(
                strict=True,
                raises=AssertionError,
                reason="SampleWeighted never advances the steps of the method inside it: scores move at every step",
            ),
        ),
    ],
)
def test_weights_of_one_leave_the_scores_as_they_are(every):
    np.testing.assert_allclose(scores(every, np.ones(120)), scores(every, None), rtol=1e-6)
