"""Passes whose layers, kernels or derivatives are others than those that were tried."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from tests.metagradient.per_layer import models
from tests.metagradient.per_layer.test_routes import ragged
from torch import nn
from torch.utils.checkpoint import checkpoint

import fairweight as fw
from fairweight.errors import NotDifferentiable
from fairweight.metagradient import score_gradient
from fairweight.metagradient.per_layer import layer_forward

BOUND = 1e-10
SIZE = 13


class Bags(nn.Module):
    """An operator that has neither forward mode nor double backward."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(12, 6), nn.Linear(6, 3)

    def forward(self, x, n):
        there = torch.arange(x.shape[1]) < n[:, None]
        found = self.words((x[..., 0] * 5).long().remainder(12)[there], n.cumsum(0) - n)
        return self.head(torch.tanh(found)[[*range(1, len(n)), 0]] if int(n[0]) != 3 else torch.tanh(found))


def test_a_batch_that_goes_another_way_needs_no_derivative_that_the_model_lacks():
    torch.manual_seed(0)
    model = Bags().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    for step, even in enumerate((True, False)):
        batch, exemplar = ragged(step, even), ragged(9, even=True)
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="difference")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < 1e-6


class Dropped(nn.Module):
    """Whole layers left out at random, around attention whose fused kernel has first derivatives alone."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(models.Block() for _ in range(4)), nn.Linear(8, net.CLASSES)

    def forward(self, x):
        for block in self.blocks:
            x = block(x) if torch.rand(()) < 0.5 else x
        return self.head(x.mean(1))


def test_layers_that_are_left_out_at_random():
    torch.manual_seed(0)
    model = Dropped().double()
    batch, exemplar = net.sentences(SIZE, seed=2), net.sentences(6, seed=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    for _ in range(6):
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        record = forml.step(batch, exemplar, optimizer)
        assert oracle.error(record.gradient, expected) < BOUND


def test_a_trial_within_a_step_takes_the_way_of_the_pass():
    torch.manual_seed(0)
    model, batch = Dropped().double(), net.sentences(7, seed=2)
    for _ in range(4):
        done = layer_forward(model, batch)
        done.slopes(done.losses.sum(), done.parameters)
        assert done.record.rest is None  # not by the graph: its plan was found


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = models.Block(), nn.Linear(8, net.CLASSES)

    def forward(self, x):
        return self.head(checkpoint(self.block, x.clone().requires_grad_(), use_reentrant=False).mean(1))


@pytest.mark.parametrize("gradient", ["forward", "double-backward"])
def test_checkpointed_attention_runs_again_by_the_kernels_of_its_pass(gradient):
    torch.manual_seed(0)
    model = Checkpointed().double()
    batch, exemplar = net.sentences(SIZE, seed=2), net.sentences(6, seed=3)
    expected = fw.FORML(copy.deepcopy(model), SIZE, gradient="per-layer")
    found = fw.FORML(model, SIZE, gradient=gradient)
    records = [
        forml.step(batch, exemplar, torch.optim.SGD(forml.model.parameters(), lr=0.1)) for forml in (found, expected)
    ]
    assert found.mode.plain_kernels
    assert oracle.error(records[0].gradient, records[1].gradient) < BOUND


def test_checkpointed_layers_keep_their_masks_in_a_compiled_step():
    """A graph would draw them again on the way back."""
    torch.manual_seed(0)
    model = models.Checkpointed(False).double()
    twin, batch, forml = copy.deepcopy(model), net.vectors(SIZE, seed=2), fw.FORML(model, SIZE, agreement_every=0)
    forml.compile("eager")
    random = torch.get_rng_state()
    record = forml.backward(batch, net.vectors(6, seed=3), torch.optim.SGD(model.parameters(), lr=0.1))
    torch.set_rng_state(random)
    losses = nn.functional.cross_entropy(twin(batch.inputs), batch.labels, reduction="none")
    (record.weights * losses).sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert oracle.error(p.grad, q.grad) < BOUND


def contrast(logits, labels):
    return nn.functional.cross_entropy(logits - logits.mean(0), labels, reduction="none")


@pytest.mark.parametrize("mode", ["forward", "difference"])
def test_a_loss_of_the_callers_may_see_other_samples(mode):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, net.CLASSES)).double()
    batch, exemplar, scores = net.vectors(SIZE, seed=2), net.vectors(6, seed=3), torch.randn(SIZE).double()
    given = (model, batch, exemplar, scores, fw.MeanLoss(), 0.1)
    known = score_gradient(*given, mode="double-backward", loss=contrast)
    assert oracle.error(score_gradient(*given, mode=mode, loss=contrast), known) < (
        BOUND if mode == "forward" else 1e-6
    )
    with pytest.raises(NotDifferentiable, match="see each other"):
        score_gradient(*given, mode="per-layer", loss=contrast)
