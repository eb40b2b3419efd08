"""A loop of one's own: clipping, an average of weights, and layers that are run again in the backward pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import fairweight as fw

N = 20


def _data() -> tuple[fw.Batch, fw.Batch]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N + 12, 4, generator=g, dtype=torch.float64)
    y, a = torch.randint(2, (N + 12,), generator=g), torch.randint(2, (N + 12,), generator=g)
    return fw.Batch(x[:N], y[:N], a[:N]), fw.Batch(x[N:], y[N:], a[N:])


class Net(nn.Module):
    """Two layers, of which the first may be run again in the backward pass."""

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.again = nn.Linear(4, 8).double(), nn.Linear(8, 2).double(), again

    def forward(self, x: Tensor) -> Tensor:
        inner = checkpoint(self.first, x, use_reentrant=False) if self.again else self.first(x)
        found: Tensor = self.last(torch.tanh(inner))
        return found


def test_clipping_by_the_caller_is_clip_norm() -> None:
    train, exemplar = _data()
    ends = []
    for by_caller in (False, True):
        model = Net()
        forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(4):
            if by_caller:
                optimizer.zero_grad()
                forml.backward(train, exemplar, optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                optimizer.step()
            else:
                forml.step(train, exemplar, optimizer, clip_norm=0.05)
        ends.append((model.first.weight.detach(), forml.scores))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_an_average_of_weights_follows_without_taking_part() -> None:
    train, exemplar = _data()
    ends = []
    for averaged in (False, True):
        model = Net()
        forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.5)
        ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        for _ in range(4):
            forml.step(train, exemplar, optimizer)
            if averaged:
                ema.update_parameters(model)
        ends.append((model.first.weight.detach(), forml.scores))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))
    assert not torch.equal(ema.module.first.weight, model.first.weight)


@pytest.mark.parametrize("gradient", ["auto", "forward"])
def test_layers_run_again_give_the_same_step(gradient: str) -> None:
    train, exemplar = _data()
    ends = []
    for again in (False, True):
        model = Net(again=again)
        forml, optimizer = fw.FORML(model, N, gradient=gradient), torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(3):
            forml.step(train, exemplar, optimizer)
        ends.append((model.first.weight.detach(), forml.scores))
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
