"""Models that torch lacks second or forward-mode derivatives of, beside an oracle of first derivatives alone."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tests import oracle
from tests.contract import by_hand
from tests.contract.architectures import vectors, words
from tests.contract.unusual_models import CLASSES
from torch import Tensor, nn

import fairweight as fw
from fairweight.errors import NotDifferentiable
from fairweight.types import Batch

BOUND = 1e-10


class Table(nn.Module):
    def __init__(self, made: nn.Module) -> None:
        super().__init__()
        self.table, self.head = made, nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        return self.head(torch.tanh(h if h.ndim == 2 else h.mean(1)))


class Near(nn.Module):
    """Distances to learned points."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.points, self.head = nn.Linear(6, 3), nn.Parameter(torch.randn(4, 3)), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.exp(-torch.cdist(self.inner(x), self.points)))


class Force(nn.Module):
    """The slope of an energy by the inputs, which the model takes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.energy, self.head = nn.Linear(6, 5), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(torch.tanh(self.energy(x)).square().sum(), x, create_graph=True)
        return self.head(slope)


MODELS = {
    "rows by how often they come": (lambda: Table(nn.Embedding(12, 6, 2, scale_grad_by_freq=True)), words, "per-layer"),
    "sparse rows": (lambda: Table(nn.Embedding(12, 6, sparse=True)), words, "per-layer"),
    "sparse bags": (lambda: Table(nn.EmbeddingBag(12, 6, sparse=True)), words, "per-layer"),
    "distances": (Near, vectors, "per-layer"),
    "a slope in the model": (Force, vectors, "double-backward"),
}


def numbered(batch: Batch) -> Batch:
    return Batch(batch.inputs, batch.labels, None, torch.arange(len(batch)))


def setting(name: str):
    make, draw, mode = MODELS[name]
    torch.manual_seed(0)
    return make().double(), numbered(draw(13, 1)), draw(7, 2), mode


@pytest.mark.parametrize("name", MODELS)
def test_auto_is_exact(name):
    model, batch, exemplar, mode = setting(name)
    forml = fw.FORML(model, 13, fw.LossVariance())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (13, 6, 13):
        part, twin = batch.take(torch.arange(size)), copy.deepcopy(model)
        expected = by_hand.score_gradient(twin, part, exemplar, forml.scores[:size], 0.1)
        record = forml.step(part, exemplar, optimizer)
        assert record.mode == mode
        assert oracle.error(record.gradient, expected) < BOUND
        losses = F.cross_entropy(twin(part.inputs), part.labels, reduction="none")
        (record.weights * losses).sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert p.grad.layout == q.grad.layout
            assert oracle.error(p.grad.to_dense(), q.grad.to_dense()) < BOUND


@pytest.mark.parametrize("compiled", [False, True])
def test_a_sparse_gradient_stays_so_for_its_optimizer(compiled):
    model, batch, exemplar, _ = setting("sparse rows")
    forml = fw.FORML(model, 13, gradient="per-layer")
    if compiled:
        forml.compile("eager")
    optimizer = torch.optim.SparseAdam(model.table.parameters(), lr=0.1)
    for _ in range(2):
        forml.step(batch, exemplar, optimizer)


def test_forward_mode_says_what_to_do_where_the_model_takes_slopes():
    model, batch, exemplar, _ = setting("a slope in the model")
    with pytest.raises(NotDifferentiable, match="use gradient='auto'"):
        fw.FORML(model, 13, gradient="forward").step(batch, exemplar, torch.optim.SGD(model.parameters(), lr=0.1))
