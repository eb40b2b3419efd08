"""A linear layer with one row for each sample: weight and bias are one term, which is asked for either of them too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fairweight.metagradient import layer_forward, pull, virtual_forward
from fairweight.metagradient.passes import Mode
from fairweight.types import Batch


class Turned(nn.Module):
    """Its weight is [in, out], as addmm takes it; a bias of one number is broadcast."""

    def __init__(self, bias: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(bias))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


@pytest.mark.parametrize("names", [("weight",), ("bias",), ("weight", "bias")])
@pytest.mark.parametrize("made", [lambda: nn.Linear(5, 3), lambda: Turned(3), lambda: Turned(1)])
def test_pull_and_slopes_of_either(made, names) -> None:
    torch.manual_seed(0)
    model = made().double()
    batch = Batch(torch.randn(7, 5, dtype=torch.float64), torch.arange(7) % 3)
    direction = {name: torch.randn_like(p) for name, p in model.named_parameters() if name in names}
    moving = {name: p for name, p in model.named_parameters() if name in names}
    layers, plain = layer_forward(model, batch, virtual=True), virtual_forward(model, batch)
    for weights in (torch.softmax(torch.randn(7, dtype=torch.float64), dim=0) for _ in range(2)):
        found, true = layers.slopes(weights, moving), plain.slopes(weights, moving)
        assert found.keys() == true.keys()
        for name, slope in true.items():
            torch.testing.assert_close(found[name], slope, rtol=1e-12, atol=1e-14)
    expected = pull(plain, direction, Mode("forward"))
    torch.testing.assert_close(layers.pull(direction), expected, rtol=1e-12, atol=1e-14)
