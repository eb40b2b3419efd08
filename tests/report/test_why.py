import numpy as np
import pytest
from tests import audits

from fairweight.report.why import BARS, POINTS, Reasons, bars, levels


def test_levels_are_on_one_scale_for_all_samples():
    path = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.1]])
    found = levels(path)
    assert found.tolist() == [[0, 4, 7], [0, 0, 0]]
    assert bars(found[0]) == BARS[0] + BARS[4] + BARS[7]


def test_long_paths_keep_their_ends():
    path = np.linspace(0, 1, 200)[:, None]
    found = levels(path)
    assert found.shape == (1, POINTS)
    assert found[0, 0] == 0
    assert found[0, -1] == 7


@pytest.mark.parametrize("path", [np.zeros((3, 2)), np.array([[np.nan, 1.0], [0.0, np.nan]]), np.full((1, 1), np.nan)])
def test_flat_and_unknown_paths_do_no_harm(path):
    found = levels(path)
    assert found.min() >= 0
    assert found.max() <= 7


def test_a_reason_says_push_loss_forgetting_and_the_models_opinion():
    frame = audits.weights(100, wrong=0.2)
    frame["label"] = frame["label"].cat.set_categories(["no", "yes"])
    reasons = Reasons(audits.trained(frame))
    wrong = int(frame["forgetting_events"].to_numpy().argmax())
    found = reasons.of(wrong)
    assert found.startswith("Pushed up at 0 of 5 visits; average loss 4.0")
    assert "never learned" in found
    assert f"the model says {frame['predicted'].iloc[wrong]}, and gives its label 2.0 %" in found
    frame.loc[wrong, "forgetting_events"] = 1
    assert "forgotten 1 time;" in Reasons(audits.trained(frame)).of(wrong)


def test_a_run_without_an_objective_has_nothing_to_say_of_pushes():
    found = Reasons(audits.trained(audits.weights(20, scores=False))).of(0)
    assert "ushed" not in found
