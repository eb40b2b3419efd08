"""Weights that are given: what they make of a batch, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd

from fairweight.errors import BadInput, ScoresMismatch
from fairweight.methods.given import Given
from fairweight.types import Batch


def samples(labels, rows=None) -> Batch:
    return Batch(torch.zeros(len(labels), 1).double(), torch.tensor(labels), rows=rows)


def test_a_batch_is_weighed_by_the_numbers_of_its_rows():
    model = BiasOnly()
    method = Given(model, 4, weights=[1.0, 2.0, 5.0, 0.0])
    record = method.step(samples([0, 1, 1], torch.tensor([2, 0, 3])), None, sgd(model))
    assert record.weights.tolist() == pytest.approx([5 / 6, 1 / 6, 0])


def test_weights_have_mean_one_and_can_act_through_the_draws():
    method = Given(BiasOnly(), 4, weights=[1, 2, 5, 0], through="sampling")
    method.begin(samples([0, 1, 1, 0]))
    assert method.weights().tolist() == pytest.approx([0.5, 1.0, 2.5, 0.0])
    assert method.sampling_weights().tolist() == pytest.approx([0.5, 1.0, 2.5, 0.0])


def test_softmax_of_scores_is_what_forml_would_weigh_by():
    scores = torch.tensor([0.3, -0.7, 1.1, 0.0])
    model = BiasOnly()
    method = Given(model, 4, weights=scores.exp())
    rows = torch.tensor([1, 2, 3])
    weights = method.step(samples([0, 1, 1], rows), None, sgd(model)).weights
    assert torch.allclose(weights.float(), torch.softmax(scores[rows], 0))


def test_none_counts_all_alike_and_says_so(caplog):
    method = Given(model := BiasOnly(), 3)
    method.begin(train := samples([0, 1, 1]))
    assert "refit" in caplog.text
    assert method.step(train, None, sgd(model)).weights.tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    "weights",
    [[1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, float("nan"), 1.0], 3, "123", [1, "2", 3]],
)
def test_what_are_no_weights_is_refused(weights):
    with pytest.raises(BadInput, match=r"Given\(weights"):
        Given(BiasOnly(), 3, weights=weights)


def test_arrays_and_columns_of_a_frame_are_numbers_too():
    each = pd.Series([1.0, 2.0, 5.0], index=[7, 8, 9])
    for weights in (each, each.to_numpy(), each.to_numpy().astype("float32"), each.tolist(), torch.tensor(each.values)):
        method = Given(BiasOnly(), 3, weights=weights)
        method.begin(samples([0, 1, 1]))
        assert method.weights().tolist() == pytest.approx([0.375, 0.75, 1.875])


def test_a_change_to_the_callers_tensor_changes_nothing():
    mine = torch.ones(2)
    method = Given(BiasOnly(), 2, weights=mine)
    mine.zero_()
    method.begin(samples([0, 1]))
    assert method.weights().tolist() == [1.0, 1.0]


def test_a_state_of_another_training_set_is_refused():
    state = Given(BiasOnly(), 2, weights=[1, 2]).state_dict()
    with pytest.raises(ScoresMismatch, match="2 samples"):
        Given(BiasOnly(), 3, weights=[1, 2, 3]).load_state_dict(state)
