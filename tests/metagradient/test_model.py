"""A pass at other parameters gives the model every tensor of its own back, as the same object."""

from __future__ import annotations

import pytest
import torch
from tests import networks as net
from torch import nn

import fairweight as fw
from fairweight.metagradient.model import exchanged


class Shared(nn.Module):
    """One layer under three names."""

    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Linear(6, 6)
        self.a, self.b = nn.Sequential(self.enc, nn.Tanh()), nn.Sequential(self.enc, nn.Sigmoid())
        self.head = nn.Linear(6, net.CLASSES)

    def forward(self, x):
        return self.head(self.a(x) + self.b(x))


def held(model: nn.Module) -> dict[str, int]:
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    return {name: id(t) for name, t in tensors.items()}


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("gradient", ["auto", *(m for m in fw.metagradient.MODES if m != "auto")])
def test_every_parameter_is_the_same_object_after_a_step(gradient, trace):
    model = Shared().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = fw.FORML(model, 5, gradient=gradient)
    if trace:
        forml.compile("eager")
    before, values = held(model), {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(2):
        forml.step(net.vectors(5, seed=2), net.vectors(6, seed=3), optimizer)
    assert held(model) == before
    assert all(not torch.equal(values[name], p) for name, p in model.named_parameters())
    assert model.a[0].weight is model.b[0].weight is model.enc.weight is optimizer.param_groups[0]["params"][0]


def test_a_layer_under_two_names_is_exchanged_everywhere():
    model = Shared().double()
    x = net.vectors(5).inputs
    zero = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    with exchanged(model, zero):
        assert float(model(x).abs().max()) == 0.0
    assert float(model(x).detach().abs().max()) > 0.0


def test_an_error_inside_gives_everything_back():
    model = Shared()
    before = held(model)
    with pytest.raises(ZeroDivisionError), exchanged(model, {"enc.weight": torch.zeros(6, 6)}):
        raise ZeroDivisionError
    assert held(model) == before
