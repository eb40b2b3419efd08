import pytest
import torch

from fairweight.runs.run import predictions_by


def test_prediction_probability_and_the_best_other_label():
    chances = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]])
    found = predictions_by(chances.log(), torch.tensor([0, 1, 2]))
    assert found["predicted"].tolist() == [0, 2, 0]
    assert found["probability"].tolist() == pytest.approx([0.7, 0.3, 0.1])
    assert found["suggested"].tolist() == [1, 2, 0]


def test_one_logit_speaks_for_two_labels():
    found = predictions_by(torch.tensor([[0.0], [2.0]]), torch.tensor([0, 0]))
    assert found["predicted"].tolist() == [0, 1]
    assert found["probability"].tolist() == pytest.approx([0.5, 1 / (1 + 2.718281828**2)])
    assert found["suggested"].tolist() == [1, 1]
