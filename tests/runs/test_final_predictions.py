import pytest
import torch
from torch import nn

from fairweight.runs import run as module
from fairweight.runs.run import final_predictions
from fairweight.types import Batch


class Given(nn.Module):
    """Logits are the inputs."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, inputs):
        return inputs + self.bias


def test_prediction_probability_and_the_best_other_label():
    chances = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]])
    found = final_predictions(Given(), Batch(chances.log(), torch.tensor([0, 1, 2])))
    assert found["predicted"].tolist() == [0, 2, 0]
    assert found["probability"].tolist() == pytest.approx([0.7, 0.3, 0.1])
    assert found["suggested"].tolist() == [1, 2, 0]


def test_one_logit_speaks_for_two_labels():
    found = final_predictions(Given(), Batch(torch.tensor([[0.0], [2.0]]), torch.tensor([0, 0])))
    assert found["predicted"].tolist() == [0, 1]
    assert found["probability"].tolist() == pytest.approx([0.5, 1 / (1 + 2.718281828**2)])
    assert found["suggested"].tolist() == [1, 1]


def test_parts_make_the_whole(monkeypatch):
    samples = Batch(torch.randn(50, 4), torch.arange(50) % 4)
    whole = final_predictions(Given(), samples)
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    for a, b in zip(whole.values(), final_predictions(Given(), samples).values(), strict=True):
        assert torch.equal(a, b)
