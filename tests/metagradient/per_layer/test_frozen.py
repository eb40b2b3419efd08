"""The pull with batch norm's statistics held constant: exact without batch norm, near with it, `.grad` always real."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tests import networks as net
from tests import oracle
from torch import nn

import fairweight as fw
from fairweight.errors import NotDifferentiable
from fairweight.types import Batch

SIZE = 64


def drawn(n: int, seed: int) -> Batch:
    found = net.pictures(n, seed=seed)
    return Batch(found.inputs, found.labels, None, torch.arange(n))


def once(model, gradient):
    twin = copy.deepcopy(model)
    forml = fw.FORML(twin, SIZE, gradient=gradient, agreement_every=0)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    return twin, forml.backward(drawn(SIZE, 2), drawn(30, 3), optimizer)


def test_without_batch_norm_it_is_exact():
    torch.manual_seed(0)
    model = net.group_layer_norm().double()
    (first, frozen), (second, exact) = once(model, "per-layer-frozen"), once(model, "double-backward")
    assert frozen.mode == "per-layer-frozen"
    assert oracle.error(frozen.gradient, exact.gradient) < 1e-10
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert oracle.error(p.grad, q.grad) < 1e-10


def test_with_batch_norm_the_pull_is_near_and_the_gradient_real():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8, affine=False), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, net.CLASSES),
    ).double()  # fmt: skip
    (twin, frozen), (_, exact) = once(model, "per-layer-frozen"), once(model, "forward")
    cosine = float(F.cosine_similarity(frozen.pull, exact.pull, dim=0))
    assert 0.9 < cosine < 1 - 1e-9  # an approximation, and told from the exact one
    real = copy.deepcopy(model)
    losses = F.cross_entropy(real(drawn(SIZE, 2).inputs), drawn(SIZE, 2).labels, reduction="none")
    (frozen.weights * losses).sum().backward()
    for p, q in zip(twin.parameters(), real.parameters(), strict=True):
        assert oracle.error(p.grad, q.grad) < 1e-10
    for a, b in zip(twin.buffers(), real.buffers(), strict=True):
        assert torch.allclose(a, b)


def test_only_when_asked_for():
    with pytest.raises(NotDifferentiable, match="see each other"):
        once(net.conv_batch_norm().double(), "per-layer")
    assert once(net.conv_batch_norm().double(), "auto")[1].mode != "per-layer-frozen"
