"""The networks that come along: sizes, resolutions, and that a step works on each."""

from __future__ import annotations

import pytest
import torch
from tests import oracle
from torch import nn

from fairweight import catalog
from fairweight.errors import UnknownName
from fairweight.metagradient import score_gradient
from fairweight.methods.forml import FORML
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch


def resolutions(model: ResNet18, pixels: int) -> list[int]:
    """Height after the stem and after each block."""
    seen: list[int] = []
    for module in (model.stem, *model.stages):
        module.register_forward_hook(lambda _, __, out: seen.append(out.shape[-1]))
    with torch.no_grad():
        assert model(torch.zeros(2, 3, pixels, pixels)).shape == (2, model.head.out_features)
    return seen


def numel(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_resnet18_for_small_images():
    """3x3 stem without pooling, 64-128-256-512: 11.17 M parameters; resolution halves three times."""
    model = ResNet18(10)
    assert numel(model) == 11_173_962
    assert resolutions(model, 32) == [32, 32, 32, 16, 16, 8, 8, 4, 4]
    assert [m.out_channels for m in model.modules() if isinstance(m, nn.Conv2d)].count(512) == 5
    assert numel(ResNet18(100)) == 11_173_962 + 90 * 513


def test_resnet18_for_large_images():
    """The ImageNet stem: 7x7 with stride 2, then pooling; as many parameters as the well-known one."""
    model = ResNet18(1000, stem="large")
    assert numel(model) == 11_689_512
    assert resolutions(model, 128) == [32, 32, 32, 16, 16, 8, 8, 4, 4]
    assert resolutions(ResNet18(2, stem="large", width=8), 224) == [56, 56, 56, 28, 28, 14, 14, 7, 7]


def test_resnet18_of_other_widths_and_channels():
    assert ResNet18(5, width=8, channels=1)(torch.zeros(3, 1, 28, 28)).shape == (3, 5)
    assert ResNet18(5, width=8)(torch.zeros(3, 3, 17, 23)).shape == (3, 5)  # odd and not square


def test_a_residual_block_starts_as_a_plain_sum():
    """Silencing both convolutions leaves ReLU of the input: the skip is an identity where shapes allow."""
    block = ResNet18(3, width=4).stages[0].eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 4, 8, 8)
    torch.testing.assert_close(block(x), x.relu())


def test_an_unknown_stem():
    with pytest.raises(UnknownName, match="choose 'small'"):
        ResNet18(10, stem="tiny")


def test_mlp():
    model = MLP(784, 10)
    assert numel(model) == 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)
    assert numel(MLP(4, 2, hidden=())) == 10
    assert sum(isinstance(m, nn.ReLU) for m in MLP(4, 2, (8, 8, 8)).modules()) == 3
    assert [m.p for m in MLP(4, 2, (8, 8), dropout=0.2).modules() if isinstance(m, nn.Dropout)] == [0.2, 0.2]
    assert not any(isinstance(m, nn.Dropout) for m in MLP(4, 2).modules())


def test_the_folder_names_its_models():
    assert catalog.names("models") == ["mlp", "resnet", "trees"]
    assert catalog.load("models", "mlp") is MLP
    assert catalog.load("models", "resnet") is ResNet18


@pytest.mark.parametrize("stem", ["small", "large"])
def test_the_gradient_is_exact_on_a_resnet(stem):
    model = ResNet18(3, stem=stem, width=2).double()
    batch = Batch(torch.randn(6, 3, 32, 32).double(), torch.arange(6) % 3)
    exemplar = Batch(torch.randn(6, 3, 32, 32).double(), torch.arange(6) % 3)
    forward, double = (
        score_gradient(model, batch, exemplar, torch.zeros(6).double(), LossVariance(), 0.01, mode)
        for mode in ("forward", "double-backward")
    )
    assert oracle.error(forward, double) < 1e-10


@pytest.mark.parametrize("model", [MLP(48, 3, (16,), dropout=0.2), ResNet18(3, width=2)], ids=["mlp", "resnet"])
def test_a_step_works(model):
    batch = Batch(torch.randn(6, 3, 4, 4), torch.arange(6) % 3)
    forml = FORML(model, 6, LossVariance())
    record = forml.step(batch, batch, torch.optim.SGD(model.parameters(), 0.1))
    assert torch.isfinite(record.loss)
    assert float(forml.scores.std()) > 0
