"""Models that write over parameters in their forward pass, as nn.Embedding(max_norm=...) does.

The real pass does, as in plain training; no other pass changes what the caller sees. The weight that is used is the one
that was written, and the derivative goes to that.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tests import oracle
from torch import Tensor, nn

import fairweight as fw
from fairweight.errors import NotDifferentiable
from fairweight.metagradient import MODES, score_gradient
from fairweight.types import Batch

BOUND = 1e-10
SIZE, WORDS, CLASSES = 13, 12, 3


class Capped(nn.Module):
    """kind: how rows of a table are kept short."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        made = nn.EmbeddingBag if kind == "bag" else nn.Embedding
        self.words = made(WORDS, 6, max_norm=0.5 if kind != "own" else None)
        self.table = nn.Parameter(torch.randn(WORDS, 6))
        self.words.weight.requires_grad_(kind != "frozen")
        self.inner, self.head = nn.Linear(6, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "own":
            self.words.weight.data = F.normalize(self.words.weight.data, dim=1)
        h = self.words(x)
        h = h if h.ndim == 2 else h.mean(1)
        return self.head(torch.tanh(self.inner(h + F.embedding(x, self.table, max_norm=0.7).sum(1))))


KINDS = ("module", "bag", "frozen", "own")
# Torch has no such derivatives of bags; a difference would take what is written for a part of the gradient.
WITHOUT = {("bag", "forward"), ("bag", "double-backward"), *((kind, "difference") for kind in KINDS)}


def words(n: int, seed: int, first: int = 0) -> Batch:
    g = torch.Generator().manual_seed(seed)
    rows = torch.arange(n)
    return Batch(torch.randint(WORDS, (n, 4), generator=g), rows % CLASSES, None, rows + first)


def by_hand(model: nn.Module, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Tensor:
    """The score gradient by double backward; moves the model as the real pass does."""  # [B]
    w = scores.clone().requires_grad_()
    losses = oracle.cross_entropy(model(batch.inputs), batch.labels)
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    slopes = torch.autograd.grad((w.softmax(0) * losses).sum(), list(own.values()), create_graph=True)
    there = {name: p.clone() for name, p in model.named_parameters()}
    there |= {name: p - lr * s for (name, p), s in zip(own.items(), slopes, strict=True)}
    again = torch.func.functional_call(model, there, (exemplar.inputs,))
    value = oracle.variance(oracle.cross_entropy(again, exemplar.labels), exemplar.labels)
    return torch.autograd.grad(value, w)[0]


def made(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return Capped(kind).double()


def plainly(kind: str, model: nn.Module) -> nn.Module:
    """With a table in place of the bag, which has no double backward."""
    if kind != "bag":
        return copy.deepcopy(model)
    other = made("module")
    other.load_state_dict(model.state_dict())
    return other


def held(model: nn.Module) -> list[Tensor]:
    return [t.clone() for t in (*model.parameters(), *model.buffers(), torch.get_rng_state())]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_score_gradient_alone_touches_nothing(kind, mode):
    model, batch, exemplar, scores = made(kind), words(SIZE, 1), words(7, 2), torch.randn(SIZE).double()
    expected = by_hand(plainly(kind, model), batch, exemplar, scores, 0.3)
    before, places = held(model), [p.data_ptr() for p in model.parameters()]
    if (kind, mode) in WITHOUT:
        with pytest.raises(NotDifferentiable, match="use gradient='auto'"):
            score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.3, mode)
    else:
        found = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.3, mode)
        assert oracle.error(found, expected) < BOUND
    assert all(torch.equal(a, b) for a, b in zip(before, held(model), strict=True))
    assert places == [p.data_ptr() for p in model.parameters()]


OPTIONS = {
    **{gradient: gradient for gradient in ("auto", "per-layer", "forward", "double-backward")},
    "compiled": "auto",
    "accumulated": "per-layer",
    "accumulated, forward": "forward",
}


PAIRS = [(kind, option) for kind in KINDS for option in OPTIONS if (kind, OPTIONS[option]) not in WITHOUT]


@pytest.mark.parametrize(("kind", "option"), PAIRS)
def test_steps_are_those_of_the_oracle(kind, option):
    model, exemplar = made(kind), words(7, 9)
    twin = copy.deepcopy(model)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.3) for m in (model, twin))
    forml = fw.FORML(model, 40, fw.LossVariance(), agreement_every=0, gradient=OPTIONS[option])
    if option == "compiled":
        forml.compile("eager")
    for step, n in enumerate((13, 6, 13)):
        batch = words(n, step, first=6 * step)
        plain = plainly(kind, twin)
        expected = by_hand(plain, batch, exemplar, forml.scores[batch.rows].double(), 0.3)
        if option.startswith("accumulated"):
            optimizer.zero_grad()
            with forml.accumulating(2):
                for part in (slice(0, 4), slice(4, n)):
                    record = forml.backward(batch.take(torch.arange(n)[part]), exemplar, optimizer)
            optimizer.step()
        else:
            record = forml.step(batch, exemplar, optimizer)
        assert oracle.error(record.gradient, expected) < BOUND
        other.zero_grad()
        losses = oracle.cross_entropy(twin(batch.inputs), batch.labels)
        (forml.scores[batch.rows].double().softmax(0) * losses).sum().backward()
        other.step()
        for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            assert torch.allclose(p, q, rtol=1e-11, atol=1e-13), name
            assert (p.grad is None) == (q.grad is None)
            assert q.grad is None or torch.allclose(p.grad, q.grad, rtol=1e-9, atol=1e-13), name


def test_to_look_for_the_head_touches_nothing():
    model, scores = made("module"), torch.zeros(SIZE).double()
    before = held(model)
    score_gradient(model, words(SIZE, 1), words(7, 2), scores, fw.LossVariance(), 0.3, scope="head")
    assert all(torch.equal(a, b) for a, b in zip(before, held(model), strict=True))
