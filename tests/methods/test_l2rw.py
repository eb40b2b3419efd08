"""L2RW: two samples by hand, double backward written out, and an answer known on paper."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from tests import networks as net
from tests import oracle
from tests.methods.one_sample_models import BiasOnly, Line, sgd
from torch.func import functional_call

from fairweight.errors import MissingExemplar, OneGroup
from fairweight.methods.l2rw import L2RW
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch


def sigma(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def points(x, labels) -> Batch:
    return Batch(torch.tensor(x).double(), torch.tensor(labels))


def test_two_samples_of_a_linear_model_by_hand():
    """g_i = (σ(θ·x_i) − y_i) x_i, v the same for the exemplar: the pulls are their products."""
    model = Line([0.5, -0.25])
    train = points([[1.0, 2.0], [2.0, -1.0]], [1, 1])
    exemplar = points([[1.0, 0.5]], [1])
    outer = sigma(0.5 - 0.125) - 1
    v = [outer * 1.0, outer * 0.5]
    first = (sigma(0.5 - 0.5) - 1) * (1.0 * v[0] + 2.0 * v[1])
    second = (sigma(1.0 + 0.25) - 1) * (2.0 * v[0] - 1.0 * v[1])
    assert first > 0
    assert second > 0
    record = L2RW(model, 2).step(train, exemplar, sgd(model))
    assert record.pull.tolist() == pytest.approx([first, second], rel=1e-12)
    assert record.weights.tolist() == pytest.approx([first / (first + second), second / (first + second)], rel=1e-12)


def test_a_sample_that_pulls_the_wrong_way_counts_for_nothing():
    model = Line([0.0, 0.0])
    train = points([[1.0, 0.0], [1.0, 0.0]], [1, 0])
    record = L2RW(model, 2).step(train, points([[1.0, 0.0]], [1]), sgd(model))
    assert record.weights.tolist() == [1.0, 0.0]


def test_where_nobody_pulls_the_right_way_nothing_moves():
    """The source divides by 1 where the sum is 0: weights 0, and no step."""
    model = Line([0.3, 0.1])
    train = points([[1.0, 0.0], [2.0, 0.0]], [0, 0])
    before = model.theta.detach().clone()
    record = L2RW(model, 2).step(train, points([[1.0, 0.0]], [1]), sgd(model))
    assert record.weights.tolist() == [0.0, 0.0]
    assert float(record.loss) == 0.0
    assert torch.equal(model.theta.detach(), before)


def by_double_backward(model, batch, exemplar, objective):
    """−d objective(θ − Σ ε_i ∇l_i) / dε at ε = 0, as in the paper."""
    model = copy.deepcopy(model)
    parameters = dict(model.named_parameters())

    def losses(at, what):
        buffers = {name: b.clone() for name, b in model.named_buffers()}
        return F.cross_entropy(functional_call(model, (at, buffers), (what.inputs,)), what.labels, reduction="none")

    eps = torch.zeros(len(batch), dtype=torch.float64, requires_grad=True)
    slopes = torch.autograd.grad((eps * losses(parameters, batch)).sum(), list(parameters.values()), create_graph=True)
    there = {name: p - s for (name, p), s in zip(parameters.items(), slopes, strict=True)}
    value = objective(losses(there, exemplar), exemplar.labels if exemplar.groups is None else exemplar.groups)
    return -torch.autograd.grad(value, eps)[0]


CASES = {
    "mlp": (net.mlp, net.vectors(9), net.vectors(12, groups=True, seed=2)),
    "batch norm": (net.conv_batch_norm, net.pictures(8), net.pictures(9, seed=2)),
}
OBJECTIVES = {
    "mean": (None, lambda losses, groups: losses.mean()),
    "max": (MaxLossDiscrepancy(), oracle.spread),
    "variance": (LossVariance(), oracle.variance),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mode", "bound"), [("forward", 1e-10), ("double-backward", 1e-10), ("difference", 1e-5)])
def test_the_pull_is_that_of_double_backward(mode, bound, case, objective):
    torch.manual_seed(0)
    make, batch, exemplar = CASES[case]
    model = make().double()
    ours, theirs = OBJECTIVES[objective]
    expected = by_double_backward(model, batch, exemplar, theirs)
    record = L2RW(model, len(batch), ours, mode).step(batch, exemplar, sgd(model, 0.1))
    assert oracle.error(record.pull, expected) < bound
    positive = expected.clamp_min(0)
    torch.testing.assert_close(record.weights, positive / positive.sum(), rtol=1e-4, atol=1e-9)


def test_a_small_recurrent_net_finds_a_mode():
    """Its fused kernel has no forward-mode formula: "auto" must not assume one."""
    torch.manual_seed(0)
    model, batch, exemplar = net.Recurrent().double(), net.sentences(6), net.sentences(6, seed=2)
    expected = by_double_backward(model, batch, exemplar, lambda losses, groups: losses.mean())
    record = L2RW(model, 6).step(batch, exemplar, sgd(model, 0.1))
    assert oracle.error(record.pull, expected) < 1e-5


def test_parameters_that_nobody_moves_do_not_pull():
    torch.manual_seed(0)
    make, batch, exemplar = CASES["mlp"]
    model = make().double()
    frozen = copy.deepcopy(model)
    for p in frozen[:4].parameters():
        p.requires_grad_(False)
    expected = L2RW(frozen, 9, gradient="forward").step(batch, exemplar, sgd(frozen[4]))
    found = L2RW(model, 9, gradient="forward").step(batch, exemplar, sgd(model[4]))
    torch.testing.assert_close(found.pull, expected.pull)


def test_it_finds_the_exemplars_optimum():
    """8 in 10 training labels are 1, 3 in 10 of the exemplars': training must end where the exemplars want it."""
    model = BiasOnly()
    train, exemplar = points([[0.0]] * 10, [1] * 8 + [0] * 2), points([[0.0]] * 10, [1] * 3 + [0] * 7)
    method, optimizer = L2RW(model, 10), sgd(model, 0.05)
    for _ in range(300):
        method.step(train, exemplar, optimizer)
    assert sigma(model.b.item()) == pytest.approx(0.3, abs=0.02)


def test_wrong_labels_get_less_than_right_ones():
    g = torch.Generator().manual_seed(0)
    true = torch.arange(600) % 2
    x = torch.randn(600, 2, generator=g) + 2.0 * (2 * true[:, None] - 1)
    wrong = torch.rand(600, generator=g) < 0.3
    wrong[500:] = False
    labels = torch.where(wrong, 1 - true, true)
    model = torch.nn.Linear(2, 2)
    method, optimizer = L2RW(model, 500), sgd(model, 0.1)
    given = torch.zeros(2)
    for step in range(100):
        rows = torch.randperm(500, generator=torch.Generator().manual_seed(step))[:100]
        record = method.step(Batch(x[rows], labels[rows]), Batch(x[500:], labels[500:]), optimizer)
        given += torch.stack([record.weights[wrong[rows]].sum(), record.weights[~wrong[rows]].sum()])
    assert float(given[0] / given.sum()) < 0.05  # 3 in 10 hold less than 5 % of the weight


def test_what_it_needs():
    model = net.mlp().double()
    with pytest.raises(MissingExemplar, match="exemplar"):
        L2RW(model, 9).step(net.vectors(9), None, sgd(model))
    one_group = Batch(torch.zeros(2, 6).double(), torch.tensor([1, 1]))
    with pytest.raises(OneGroup, match="at least two"):
        L2RW(model, 9, MaxLossDiscrepancy()).step(net.vectors(9), one_group, sgd(model))
