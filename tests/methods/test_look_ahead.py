"""Where the virtual step goes: rates, signs, parameter groups, and statistics."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from tests.methods.test_forml import batches

from fairweight.metagradient import score_gradient
from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import PlainStep
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch


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


@pytest.mark.parametrize("reverse", [False, True])
def test_where_training_climbs_so_does_the_bare_look_ahead(reverse):
    model = net.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, maximize=True)
    record, batch, exemplar, scores = gradient_of(model, LookAhead(reverse=reverse), optimizer)
    exact = score_gradient(model, batch, exemplar, scores.float().double(), LossVariance(), 0.1, reverse=not reverse)
    assert oracle.error(record.gradient, exact) < 1e-13


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


def test_rates_follow_what_changes_between_steps():
    """The rates are kept while the optimizer's groups, the model and the look-ahead stay as they are."""
    torch.manual_seed(0)
    model, rows = torch.nn.Linear(3, 2), torch.arange(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = FORML(model, 6)
    forml.step(Batch(torch.randn(6, 3), rows % 2, rows=rows), Batch(torch.randn(4, 3), rows[:4] % 2), optimizer)
    assert forml._rates(optimizer) == {"weight": 0.1, "bias": 0.1}
    optimizer.param_groups[0]["lr"] = 0.2
    assert forml._rates(optimizer) == {"weight": 0.2, "bias": 0.2}
    forml.look_ahead = LookAhead(lr=0.5, reverse=True)
    assert forml._rates(optimizer) == {"weight": -0.5, "bias": -0.5}
    model.bias = torch.nn.Parameter(torch.zeros(2))  # the optimizer does not hold it
    assert forml._rates(optimizer) == {"weight": -0.5}
