"""Models that were compiled, checkpointed or given a backward pass of their own: exact, or refused in a sentence."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import fairweight as fw
from fairweight.errors import BadInput, NotDifferentiable
from fairweight.metagradient import MODES, choose, classification_loss, score_gradient
from fairweight.types import Batch

SIZE = 13


def batches():
    drawn = net.vectors(SIZE, seed=2)
    return Batch(drawn.inputs, drawn.labels, None, torch.arange(SIZE)), net.vectors(6, seed=3)


class Reversible(torch.autograd.Function):
    """Adds to `.grad` of a module by itself."""

    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        ctx.save_for_backward(x)
        with torch.no_grad():
            return x + module(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            ctx.module(x).backward(g)
        return g + x.grad, None


class WritesGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, net.CLASSES)

    def forward(self, x):
        return self.head(Reversible.apply(torch.tanh(self.first(x)), self.inner))


@pytest.mark.parametrize("mode", MODES)
def test_a_backward_that_writes_grad_is_refused(mode):
    model = WritesGrad().double()
    batch, exemplar = batches()
    kept = torch.ones_like(model.inner.weight)
    model.inner.weight.grad = kept
    with pytest.raises(NotDifferentiable, match=r"writes into \.grad"):
        score_gradient(model, batch, exemplar, torch.zeros(SIZE).double(), fw.LossVariance(), 0.1, mode)
    assert model.inner.weight.grad is kept
    assert torch.equal(kept, torch.ones_like(kept))
    assert model.first.weight.grad is None


@pytest.mark.parametrize("mode", MODES)
def test_reentrant_checkpoints_are_refused_in_a_sentence(mode):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, net.CLASSES)

        def forward(self, x):
            return self.head(torch.tanh(checkpoint(self.inner, self.first(x), use_reentrant=True)))

    batch, exemplar = batches()
    with pytest.raises(NotDifferentiable, match="use_reentrant=False"):
        score_gradient(
            Checkpointed().double(), batch, exemplar, torch.zeros(SIZE).double(), fw.LossVariance(), 0.1, mode
        )


@pytest.mark.parametrize("mode", MODES)
def test_selective_checkpoints_are_refused_in_a_sentence(mode):
    """Their graph can be gone back through once."""
    keeping = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, net.CLASSES)

        def forward(self, x):
            return self.head(checkpoint(self.inner, x, use_reentrant=False, context_fn=keeping))

    batch, exemplar = batches()
    model = Checkpointed().double()
    with pytest.raises(NotDifferentiable, match="leave context_fn out"):
        fw.FORML(model, SIZE, gradient=mode).step(batch, exemplar, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("where", ["in place", "submodule", "wrapper"])
def test_compiled_models_stay_exact_and_say_so(where):
    model = net.mlp().double()
    batch, exemplar = batches()
    scores = torch.linspace(-0.5, 0.5, SIZE).double()
    expected = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "double-backward")
    if where == "in place":
        model.compile(backend="eager")
    elif where == "submodule":
        model = nn.Sequential(torch.compile(model, backend="eager"))
    else:
        model = torch.compile(model, backend="eager")
    found = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "auto")
    assert oracle.error(found, expected) < 1e-10
    mode = choose(model, batch, classification_loss, "auto", layers=True)
    assert mode.name == "per-layer"
    assert "torch.compile is left out" in mode.reason
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record = fw.FORML(model, SIZE).step(batch, exemplar, optimizer)
    assert record.mode == "per-layer"


def test_a_gradient_that_is_no_longer_exact_is_said_in_a_warning_once(caplog):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].exp()

    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.Linear(6, 5), nn.Linear(5, net.CLASSES)

        def forward(self, x):
            h = Own.apply(torch.tanh(self.inner(x)))
            return self.head(h - h.mean(dim=0))

    model = Mixing().double()
    batch, exemplar = batches()
    with caplog.at_level(logging.WARNING, "fairweight"):
        forml = fw.FORML(model, SIZE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            forml.step(batch, exemplar, optimizer)
        choose(model, batch, classification_loss, "auto", layers=True)
    assert forml.mode.name == "difference"
    assert [r.levelname for r in caplog.records].count("WARNING") == 1
    assert "approximate, because" in caplog.text


def test_an_optimizer_that_needs_a_closure_is_refused():
    class Twice(torch.optim.SGD):
        def step(self, closure):
            closure()
            super().step()

    model = net.mlp().double()
    batch, exemplar = batches()
    before = {name: p.clone() for name, p in model.named_parameters()}
    for optimizer in (Twice(model.parameters(), lr=0.1), torch.optim.LBFGS(model.parameters())):
        with pytest.raises(BadInput, match="SGD or Adam"):
            fw.FORML(model, SIZE).step(batch, exemplar, optimizer)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("gradient", ["per-layer", "forward", "double-backward"])
def test_a_grad_scaler_changes_nothing_but_the_way_there(gradient):
    batch, exemplar = batches()
    found = {}
    for scaled in (False, True):
        torch.manual_seed(0)
        model = net.mlp().double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if scaled else None
        forml = fw.FORML(model, SIZE, gradient=gradient)
        for _ in range(2):
            optimizer.zero_grad()
            forml.backward(batch, exemplar, optimizer, scaler=scaler)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        found[scaled] = torch.cat([forml.scores, *(p.detach().flatten() for p in model.parameters())])
    assert oracle.error(found[True], found[False]) < 1e-12


def test_a_scale_that_is_too_large_moves_nothing():
    drawn, held = net.vectors(SIZE, seed=2), net.vectors(6, seed=3)
    batch = Batch(drawn.inputs.float(), drawn.labels, None, torch.arange(SIZE))
    exemplar = Batch(held.inputs.float(), held.labels)
    model = net.mlp().float()
    before = [p.clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38, growth_interval=1)
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    forml.backward(batch, exemplar, optimizer, scaler=scaler, scale=1e5)
    scaler.step(optimizer)
    scaler.update()
    assert bool(torch.isfinite(forml.scores).all())
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert scaler.get_scale() < 1e38


def test_a_loader_that_does_not_say_its_rows_is_refused_by_fit():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield torch.zeros(6), 0

    model = net.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(Stream())
    with pytest.raises(BadInput, match="with_rows"):
        fw.fit(model, optimizer, fw.Uniform(model, SIZE), loader, epochs=1)
    with pytest.raises(BadInput, match="with_rows"):
        fw.fit(model, optimizer, fw.Uniform(model, SIZE), Stream(), epochs=1)
