"""Where the virtual step goes: rates, signs, parameter groups, statistics, and the direction of Adam."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from tests.methods.test_forml import OPTIMIZERS, batches
from torch import nn

from fairweight.errors import BadInput
from fairweight.metagradient import score_gradient
from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import PlainStep
from fairweight.objectives.variance import LossVariance


def gradient_of(model, look_ahead, optimizer, mode="forward", objective=None):
    batch, exemplar = next(batches())
    forml = FORML(model, 10, objective or LossVariance(), look_ahead, PlainStep(), mode, agreement_every=0)
    forml._own.copy_(torch.linspace(-1, 1, 10))
    return forml.backward(batch, exemplar, optimizer), batch, exemplar, torch.linspace(-1, 1, 10).double()


@pytest.mark.parametrize("mode", ["forward", "double-backward"])
@pytest.mark.parametrize("reverse", [False, True])
def test_parameter_groups_with_their_own_rates(mode, reverse):
    model = net.mlp().double()
    layers = [model[0], model[2], model[4]]
    optimizer = torch.optim.SGD(
        [{"params": m.parameters(), "lr": lr} for m, lr in zip(layers, (0.3, 0.02, 0.1), strict=True)]
    )
    record, batch, exemplar, scores = gradient_of(model, LookAhead(reverse=reverse), optimizer, mode)
    lr = {f"{k}.{n}": r for k, r in ((0, 0.3), (2, 0.02), (4, 0.1)) for n in ("weight", "bias")}
    expected = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.variance, lr, reverse=reverse), scores[batch.rows]
    )
    assert oracle.error(record.gradient, expected) < 1e-7  # scores are given as float32
    exact = score_gradient(model, batch, exemplar, scores.float().double(), LossVariance(), lr, reverse=reverse)
    assert oracle.error(record.gradient, exact) < 1e-13


def test_parameters_that_the_optimizer_does_not_hold_stay_in_the_look_ahead():
    model = net.mlp().double()
    record, batch, exemplar, scores = gradient_of(model, LookAhead(), torch.optim.SGD(model[4].parameters(), 0.1))
    lr = {"4.weight": 0.1, "4.bias": 0.1}
    exact = score_gradient(model, batch, exemplar, scores.float().double(), LossVariance(), lr)
    assert oracle.error(record.gradient, exact) < 1e-13


def test_the_rate_is_the_optimizers_current_one_or_its_own():
    model = net.mlp().double()
    optimizer = torch.optim.Adam(model.parameters(), 0.3)
    optimizer.param_groups[0]["lr"] = 0.05
    for look_ahead, lr in ((LookAhead(), 0.05), (LookAhead(lr=0.2), 0.2)):
        record, batch, exemplar, scores = gradient_of(model, look_ahead, optimizer)
        exact = score_gradient(model, batch, exemplar, scores.float().double(), LossVariance(), lr)
        assert oracle.error(record.gradient, exact) < 1e-13


def test_without_a_look_ahead_the_objective_is_taken_at_rest():
    model = net.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    rest, _, exemplar, _ = gradient_of(model, None, optimizer)
    near, *_ = gradient_of(model, LookAhead(), optimizer)
    assert oracle.error(rest.gradient, near.gradient) < 1e-4
    with torch.no_grad():
        value = oracle.variance(oracle.cross_entropy(model(exemplar.inputs), exemplar.labels), exemplar.labels)
    assert float(rest.objective) == pytest.approx(float(value), rel=1e-12)


ADAMS = {name: OPTIMIZERS[name] for name in ("adam", "adam with decay", "adamw", "amsgrad")}
ADAMS["upwards"] = lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1, maximize=True)
ADAMS["upwards, adamw"] = lambda p: torch.optim.AdamW(p, 0.01, maximize=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize("name", ADAMS)
def test_the_direction_of_adam(name, warm, reverse):
    """The point is where Adam itself would go; the gradient holds its second moment constant."""
    model = net.mlp().double()
    optimizer = ADAMS[name](model.parameters())
    for batch, _ in batches(warm, seed=50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    twin = copy.deepcopy(model)
    other = ADAMS[name](twin.parameters())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    record, batch, exemplar, scores = gradient_of(model, LookAhead(direction="optimizer", reverse=reverse), optimizer)
    w0 = scores.float().double()[batch.rows]
    start = {n: p.detach().clone() for n, p in twin.named_parameters()}
    oracle.softmax_total(w0, twin(batch.inputs), batch.labels).backward()
    slope0 = {n: p.grad.clone() for n, p in twin.named_parameters()}
    other.step()
    step0 = {n: p.detach() - start[n] for n, p in twin.named_parameters()}
    group = other.param_groups[0]

    def factor(name, p):  # d step / d slope with the second moment held
        s = other.state[p]
        time = float(s["step"])
        second = s["max_exp_avg_sq"] if group["amsgrad"] else s["exp_avg_sq"]
        size = (second / (1 - group["betas"][1] ** time)).sqrt() + group["eps"]
        up = -1.0 if group["maximize"] else 1.0
        return -up * group["lr"] * (1 - group["betas"][0]) / (1 - group["betas"][0] ** time) / size

    factors = {n: factor(n, p) for n, p in twin.named_parameters()}
    sign = -1.0 if reverse else 1.0

    def value(w):
        there = copy.deepcopy(twin)
        probe = copy.deepcopy(twin)
        probe.load_state_dict(start)
        probe.zero_grad()
        oracle.softmax_total(w, probe(batch.inputs), batch.labels).backward()
        with torch.no_grad():
            for (n, p), q in zip(there.named_parameters(), probe.parameters(), strict=True):
                p.copy_(start[n] + sign * (step0[n] + factors[n] * (q.grad - slope0[n])))
            return float(
                oracle.variance(oracle.cross_entropy(there(exemplar.inputs), exemplar.labels), exemplar.labels)
            )

    assert float(record.objective) == pytest.approx(value(w0), rel=1e-10)
    assert oracle.error(record.gradient, oracle.gradient(value, w0)) < 1e-8


@pytest.mark.parametrize("reverse", [False, True])
def test_where_training_climbs_so_does_the_bare_look_ahead(reverse):
    model = net.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, maximize=True)
    record, batch, exemplar, scores = gradient_of(model, LookAhead(reverse=reverse), optimizer)
    exact = score_gradient(model, batch, exemplar, scores.float().double(), LossVariance(), 0.1, reverse=not reverse)
    assert oracle.error(record.gradient, exact) < 1e-13


SGDS = {
    "bare": {},
    "decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.9, "weight_decay": 0.1},
    "dampened": {"momentum": 0.9, "dampening": 0.4},
    "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "upwards": {"momentum": 0.9, "maximize": True, "weight_decay": 0.1},
}


@pytest.mark.parametrize("mode", ["forward", "double-backward"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("warm", [0, 2])
@pytest.mark.parametrize("name", SGDS)
def test_the_direction_of_sgd(name, warm, reverse, mode):
    """The point is where SGD itself would go (or its mirror image), and the gradient that of the whole way there."""
    model = net.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, **SGDS[name])
    for batch, _ in batches(warm, seed=50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    start, state = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    look_ahead = LookAhead(direction="optimizer", reverse=reverse)
    record, batch, exemplar, scores = gradient_of(model, look_ahead, optimizer, mode)

    def value(w):
        there = copy.deepcopy(start)
        other = torch.optim.SGD(there.parameters(), 0.1, **SGDS[name])
        other.load_state_dict(copy.deepcopy(state))
        oracle.softmax_total(w, there(batch.inputs), batch.labels).backward()
        other.step()
        with torch.no_grad():
            for p, q in zip(there.parameters(), start.parameters(), strict=True):
                p.copy_(2 * q - p if reverse else p)
            return oracle.variance(oracle.cross_entropy(there(exemplar.inputs), exemplar.labels), exemplar.labels)

    w0 = scores.float().double()[batch.rows]
    assert float(record.objective) == pytest.approx(float(value(w0)), rel=1e-10)
    assert oracle.error(record.gradient, oracle.gradient(value, w0)) < 1e-7


def test_the_direction_of_other_optimizers_is_refused():
    model = net.mlp().double()
    with pytest.raises(BadInput, match="knows SGD, Adam and AdamW, not RMSprop; use direction='grad"):
        gradient_of(model, LookAhead(direction="optimizer"), torch.optim.RMSprop(model.parameters()))


def test_batch_norm_on_the_exemplar_pass_uses_the_statistics_asked_for():
    model = net.conv_batch_norm().double()
    model(net.pictures(9, seed=8).inputs)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch, exemplar = net.pictures(5, seed=2), net.pictures(6, seed=3)
    values = {}
    for statistics in ("batch", "running"):
        twin = copy.deepcopy(model)
        there = oracle.stepped(twin, batch, torch.zeros(5).double(), 0.1, state=torch.get_rng_state())
        there.train(statistics == "batch")
        with torch.no_grad():
            expected = oracle.variance(oracle.cross_entropy(there(exemplar.inputs), exemplar.labels), exemplar.labels)
        for mode in ("forward", "double-backward"):
            forml = FORML(copy.deepcopy(model), 5, LossVariance(), LookAhead(statistics=statistics), gradient=mode)
            made = forml.backward(batch, exemplar, torch.optim.SGD(forml.model.parameters(), 0.1))
            assert float(made.objective) == pytest.approx(float(expected), rel=1e-10)
        values[statistics] = float(expected)
    assert values["batch"] != pytest.approx(values["running"], rel=1e-3)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_buffers_that_a_pass_moves_are_those_before_the_step_in_every_pass():
    """Spectral norm iterates in each train pass: the step's own forward must not shift the virtual ones."""
    model = net.spectral().double()
    batch, exemplar = net.vectors(5, seed=2), net.vectors(6, seed=3)
    expected = score_gradient(model, batch, exemplar, torch.zeros(5).double(), LossVariance(), 0.1, "double-backward")
    forml = FORML(model, 5, LossVariance(), gradient="double-backward")
    record = forml.backward(batch, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    assert oracle.error(record.gradient, expected) < 1e-13
