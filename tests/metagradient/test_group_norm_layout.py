"""Group norm that keeps channels last in a traced step is torch's, and leaves no kernel that turns them."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch
from tests import oracle
from torch import nn

import fairweight as fw
from fairweight.fast import group_norm_layout, per_layer_graph
from fairweight.fast.group_norm_layout import LayoutKept
from fairweight.types import Batch


@pytest.mark.parametrize("affine", [False, True])
def test_it_is_group_norm(affine):
    x = torch.randn(3, 8, 4, 5, dtype=torch.float64).contiguous(memory_format=torch.channels_last).requires_grad_()
    weight, bias = (torch.randn(8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    given = (weight, bias) if affine else (None, None)
    g = torch.randn(3, 8, 4, 5, dtype=torch.float64)
    by = [x, weight, bias] if affine else [x]
    found, known = group_norm_layout.group_norm(x, 4, *given), torch.group_norm(x, 4, *given)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert oracle.error(found.detach(), known.detach()) < 1e-14
    for a, b in zip(torch.autograd.grad(found, by, g), torch.autograd.grad(known, by, g), strict=True):
        assert oracle.error(a, b) < 1e-13


@pytest.mark.slow
def test_a_traced_step_is_the_same_with_it(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8),
        nn.Flatten(), nn.Linear(8 * 36, 3),
    )  # fmt: skip
    model = model.double().to(memory_format=torch.channels_last)

    def drawn(n):
        x = torch.randn(n, 2, 8, 8, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
        return Batch(x, torch.arange(n) % 3, None, torch.arange(n))

    batch, exemplar = drawn(12), drawn(6)
    graphs, found = [], {}
    for kept in (None, False, True):
        monkeypatch.setattr(per_layer_graph, "LayoutKept", LayoutKept if kept else nullcontext)
        twin = copy.deepcopy(model)
        forml = fw.FORML(twin, 12, gradient="per-layer")
        if kept is not None:
            forml.compile(lambda graph: graphs.append(graph) or graph)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        forml.agreement_every = 0
        for _ in range(2):
            forml.step(batch, exemplar, optimizer)
        found[kept] = torch.cat([forml.scores, *(p.detach().flatten() for p in twin.parameters())])
    assert oracle.error(found[True], found[None]) < 1e-12
    assert oracle.error(found[False], found[None]) < 1e-12
    counts = ["group_norm" in str([n.target for n in graph.graph.nodes]) for graph in graphs]
    assert counts[0]
    assert not any(counts[2:])
