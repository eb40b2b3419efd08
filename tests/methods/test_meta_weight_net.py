"""MWN's gradient against double backward written out, its two published forms, and a net that learns what it should."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tests import networks as net
from tests import oracle
from torch import nn
from torch.func import functional_call

from fairweight.errors import BadInput, OneGroup, UnknownName
from fairweight.metagradient import forward
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.meta_weight_net import MetaWeightNet
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

LR = 0.3


def weight_net(flat: torch.Tensor, hidden: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The published net, 1 → hidden → 1, and its parameters from a flat vector."""
    made = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Sigmoid()).double()
    parts = dict(
        zip(("0.weight", "0.bias", "2.weight", "2.bias"), flat.split([hidden, hidden, hidden, 1]), strict=True)
    )
    shapes = {name: p.shape for name, p in made.named_parameters()}
    return made, {name: part.reshape(shapes[name]) for name, part in parts.items()}


def virtual_loss(flat, losses, hidden, normalised, detached):
    made, parameters = weight_net(flat, hidden)
    seen = losses.detach() if detached else losses
    v = functional_call(made, parameters, (seen[:, None],)).squeeze(1)
    if normalised:
        return (v / v.sum() * losses).sum()
    return (v * losses).sum() / len(losses)


def by_double_backward(model, batch, exemplar, flat, hidden, normalised, detached, objective):
    """d objective(θ̃) / d net as the authors compute it: the look-ahead is part of the graph."""
    model = copy.deepcopy(model)
    flat = flat.clone().requires_grad_()
    parameters = dict(model.named_parameters())

    def losses(at, what):
        buffers = {name: b.clone() for name, b in model.named_buffers()}
        return F.cross_entropy(functional_call(model, (at, buffers), (what.inputs,)), what.labels, reduction="none")

    total = virtual_loss(flat, losses(parameters, batch), hidden, normalised, detached)
    slopes = torch.autograd.grad(total, list(parameters.values()), create_graph=True)
    there = {name: p - LR * s for (name, p), s in zip(parameters.items(), slopes, strict=True)}
    value = objective(losses(there, exemplar), exemplar.labels if exemplar.groups is None else exemplar.groups)
    return torch.autograd.grad(value, flat)[0]


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
@pytest.mark.parametrize("detached", [True, False], ids=["detached", "through the net"])
@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "stable"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mode", "bound"), [("forward", 1e-10), ("double-backward", 1e-10), ("difference", 1e-5)])
def test_the_gradient_is_that_of_double_backward(mode, bound, case, normalised, detached, objective):
    torch.manual_seed(0)
    make, batch, exemplar = CASES[case]
    model = make().double()
    ours, theirs = OBJECTIVES[objective]
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    method = MetaWeightNet(model, len(batch), ours, gradient=mode, hidden=13, normalised=normalised, detached=detached)
    chosen = method.settled(batch)
    expected = by_double_backward(model, batch, exemplar, method.net, 13, normalised, detached, theirs)
    done = forward(model, batch, plain_kernels=chosen.plain_kernels)
    found = method.net_gradient(done, exemplar, optimizer).gradient
    assert oracle.error(found, expected) < bound


def test_the_two_paths_differ():
    """Without the extra path the test above would pass for a method that ignores `detached`."""
    torch.manual_seed(0)
    make, batch, exemplar = CASES["mlp"]
    model = make().double()
    flat = MetaWeightNet(model, 9, hidden=13).net
    mean = OBJECTIVES["mean"][1]
    gradients = [by_double_backward(model, batch, exemplar, flat, 13, True, flag, mean) for flag in (True, False)]
    assert oracle.error(gradients[0], gradients[1]) > 1e-3


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("normalised", [True, False])
def test_a_whole_step_written_out(kind, normalised):
    torch.manual_seed(0)
    make, batch, exemplar = CASES["mlp"]
    model = make().double()
    method = MetaWeightNet(
        model, 9, hidden=13, normalised=normalised, net_optimizer=kind, net_lr=0.05, gradient="forward"
    )
    twin, flat = copy.deepcopy(model), nn.Parameter(method.net)
    of_net = (
        torch.optim.Adam([flat], lr=0.05, weight_decay=1e-4)
        if kind == "adam"
        else torch.optim.SGD([flat], lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    )
    optimizer, of_twin = (torch.optim.SGD(m.parameters(), lr=LR, momentum=0.9) for m in (model, twin))
    for _ in range(3):
        flat.grad = by_double_backward(
            twin, batch, exemplar, flat.detach(), 13, normalised, True, OBJECTIVES["mean"][1]
        )
        of_net.step()
        losses = F.cross_entropy(twin(batch.inputs), batch.labels, reduction="none")
        total = virtual_loss(flat.detach(), losses, 13, normalised, True)
        of_twin.zero_grad()
        total.backward()
        of_twin.step()
        record = method.step(batch, exemplar, optimizer)
        torch.testing.assert_close(record.loss, total.detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close(method.net, flat.detach(), rtol=1e-9, atol=1e-12)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


def test_the_net_starts_as_torch_s_layers_do():
    flat = MetaWeightNet(net.mlp(), 9, seed=4).net
    assert flat.shape == (301,)
    assert float(flat[:200].abs().max()) == pytest.approx(1.0, abs=0.05)
    assert float(flat[200:].abs().max()) == pytest.approx(0.1, abs=0.005)
    assert torch.equal(flat, MetaWeightNet(net.mlp(), 9, seed=4).net)
    assert not torch.equal(flat, MetaWeightNet(net.mlp(), 9, seed=5).net)


def test_it_learns_to_trust_small_losses_where_labels_are_wrong():
    """3 in 10 training labels are wrong, the exemplars' right: wrong labels have large losses and must count less."""
    g = torch.Generator().manual_seed(0)
    true = torch.arange(600) % 2
    x = torch.randn(600, 2, generator=g) + 2.0 * (2 * true[:, None] - 1)
    wrong = torch.rand(600, generator=g) < 0.3
    wrong[500:] = False
    labels = torch.where(wrong, 1 - true, true)
    train, exemplar = Batch(x[:500], labels[:500]), Batch(x[500:], labels[500:])
    model = nn.Linear(2, 2)
    method = MetaWeightNet(model, 500, net_lr=1e-2, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(150):
        rows = torch.randperm(500, generator=torch.Generator().manual_seed(step))[:100]
        method.step(train.take(rows), exemplar, optimizer)
    values = method.weigh_losses(torch.tensor([0.05, 0.5, 2.0, 4.0]))
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    losses = F.cross_entropy(model(train.inputs), train.labels, reduction="none")
    each = method.weigh_losses(losses)
    assert float(each[wrong[:500]].mean()) < 0.5 * float(each[~wrong[:500]].mean())


def test_what_it_cannot_work_with():
    with pytest.raises(UnknownName, match="'adam' or 'sgd'"):
        MetaWeightNet(net.mlp(), 9, net_optimizer="rmsprop")
    with pytest.raises(UnknownName, match="gradient"):
        MetaWeightNet(net.mlp(), 9, gradient="exact")
    with pytest.raises(BadInput, match="hidden"):
        MetaWeightNet(net.mlp(), 9, hidden=0)
    with pytest.raises(BadInput, match="same hidden"):
        MetaWeightNet(net.mlp(), 9, hidden=4).load_state_dict(MetaWeightNet(net.mlp(), 9, hidden=5).state_dict())
    model = net.mlp().double()
    one_group = Batch(torch.zeros(2, 6).double(), torch.tensor([1, 1]))
    with pytest.raises(OneGroup, match="at least two"):
        MetaWeightNet(model, 9, MaxLossDiscrepancy()).step(
            net.vectors(9), one_group, torch.optim.SGD(model.parameters(), lr=LR)
        )


def test_the_look_ahead_s_rate_may_be_given():
    torch.manual_seed(0)
    make, batch, exemplar = CASES["mlp"]
    model = make().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=7.0)
    method = MetaWeightNet(model, 9, look_ahead=LookAhead(lr=LR), hidden=13, gradient="forward")
    method.settled(batch)
    expected = by_double_backward(model, batch, exemplar, method.net, 13, True, True, OBJECTIVES["mean"][1])
    found = method.net_gradient(forward(model, batch), exemplar, optimizer).gradient
    assert oracle.error(found, expected) < 1e-10
