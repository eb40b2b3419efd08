import numpy as np
import pandas as pd
import pytest
from tests import audits

from fairweight.errors import BadInput
from fairweight.report.suspects import detection, suspicion


def frame(score=None, loss=None, margin=None):
    columns = {"score": score, "ema_loss": loss, "mean_margin": margin}
    return pd.DataFrame({name: np.array(values, dtype=float) for name, values in columns.items() if values is not None})


def test_the_margin_decides_whatever_the_scores_say():
    loss, margin = [5, 4, 1, 1.1, 1.2], [-5, -4, 3, 3.1, 3.2]
    for scores in ([9, 8, -9, -8, -7], [-9, -8, 9, 8, 7], None):
        found = suspicion(frame(scores, loss, margin))
        assert found["rank"].tolist()[:2] == [1, 2]
        assert found["suspected"].tolist() == [True, True, False, False, False]


def test_without_a_margin_the_loss_decides_and_nothing_is_suspected():
    found = suspicion(frame(loss=[1, 3, 2]))
    assert found["rank"].tolist() == [3, 1, 2]
    assert not found["suspected"].any()


@pytest.mark.parametrize("score", [np.nan, 0.0])
def test_without_scores_or_where_they_are_all_alike_the_margin_decides_and_the_loss_breaks_ties(score):
    found = suspicion(frame([score] * 4, [1, 9, 2, 3], [3, 2, 1, 1]))
    assert found["rank"].tolist() == [4, 3, 2, 1]
    assert found["suspicion"].between(0, 1).all()


def test_the_margin_is_taken_in_probabilities_where_it_is_known():
    weights = frame(margin=[-1.0, 5.0, 9.0])
    assert suspicion(weights)["rank"].tolist() == [1, 2, 3]
    found = suspicion(weights.assign(mean_probability_margin=[0.2, -0.3, 0.9]))
    assert found["rank"].tolist() == [2, 1, 3]
    assert found["suspected"].tolist() == [False, True, False]


def test_a_sample_never_seen_is_not_suspected():
    found = suspicion(frame([-5, 0, np.nan], [5, 1, np.nan], [-2, 2, np.nan]))
    assert found["rank"].tolist() == [1, 2, 3]
    assert not found["suspected"].iloc[2]


def test_ties_go_to_the_lower_row_and_every_rank_is_given_once():
    found = suspicion(frame([0.0] * 5, [1] * 5, [1] * 5))
    assert found["rank"].tolist() == [1, 2, 3, 4, 5]


def test_nothing_to_rank_by_is_refused():
    with pytest.raises(BadInput, match="hold no loss"):
        suspicion(pd.DataFrame({"label": [1, 2]}))


def test_detection_against_hand_numbers():
    weights = frame([-3, -2, -1, 0], [4, 3, 2, 1], [-4, -3, 2, 3])
    weights["label"], weights["true_label"] = list("abab"), list("bbbb")  # rows 0 and 2 are wrong
    weights["suggested"] = list("bbbb")
    found = detection(weights, suspicion(weights))
    assert found is not None
    assert found.wrong == 2
    assert found.auc == pytest.approx(0.75)
    assert found.precision[2] == 0.5
    assert found.suggested_right == 1.0


def test_detection_is_unknown_without_truth_or_without_errors():
    weights = audits.weights(50)
    assert detection(weights, suspicion(weights)) is None
    weights["true_label"] = weights["label"]
    assert detection(weights, suspicion(weights)) is None
