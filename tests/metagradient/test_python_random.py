"""Models that draw from the streams of Python and numpy: every pass of a step sees the same, and they move once."""
# ruff: noqa: NPY002 - models draw from the stream of the whole process

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

import fairweight as fw
from fairweight.metagradient import score_gradient

SIZE = 13


class Draws(nn.Module):
    """Masks of numpy's, as for spectrograms, and a layer that Python leaves out at times."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, net.CLASSES)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()

    def forward(self, x):
        h = self.norm(self.first(x))
        if self.training:
            h = h * torch.as_tensor(np.random.rand(len(x), 8) < 0.8, dtype=x.dtype)
            h = h + torch.tanh(self.second(h)) if random.random() < 0.5 else h
        return self.head(torch.tanh(h))


def streams():
    return random.getstate(), repr(np.random.get_state(legacy=False))


def seeded() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@pytest.mark.parametrize("norm", [False, True])
def test_every_mode_gives_the_gradient_of_double_backward_and_moves_nothing(norm):
    seeded()
    model, batch, exemplar = Draws(norm).double(), net.vectors(SIZE, seed=2), net.vectors(6, seed=3)
    scores, before = torch.randn(SIZE).double(), streams()
    given = (model, batch, exemplar, scores, fw.LossVariance(), 0.1)
    known = score_gradient(*given, mode="double-backward")
    found = {mode: score_gradient(*given, mode=mode) for mode in ("auto", "forward", "difference")}
    assert streams() == before
    for mode, gradient in found.items():
        assert oracle.error(gradient, known) < (1e-5 if mode == "difference" else 1e-10), mode


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_draws_once_for_its_own_pass(norm, compiled):
    seeded()
    model = Draws(norm).double().eval()  # nothing is drawn at the first step
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch, exemplar, forml = net.vectors(SIZE, seed=2), net.vectors(6, seed=3), fw.FORML(model, SIZE)
    if compiled:
        forml.compile("eager")
    forml.step(batch, exemplar, optimizer)
    model.train()
    for _ in range(3):
        twin, python, numpy = copy.deepcopy(model), random.getstate(), np.random.get_state()
        record, after = forml.step(batch, exemplar, optimizer), streams()
        random.setstate(python)
        np.random.set_state(numpy)
        losses = nn.functional.cross_entropy(twin(batch.inputs), batch.labels, reduction="none")
        assert streams() == after
        (record.weights * losses).sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert q.grad is None or oracle.error(p.grad, q.grad) < 1e-10 or float(q.grad.norm()) < 1e-12
