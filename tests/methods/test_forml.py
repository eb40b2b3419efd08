"""FORML against a loop of its own: every optimizer, look-ahead, sign, form and precision."""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.errors import BadInput
from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, PlainStep
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam with decay": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "rate as a tensor": lambda p: torch.optim.SGD(p, torch.tensor(0.1)),
}


def batches(steps: int = 3, seed: int = 10):
    """Train batches over ten rows, and exemplars."""
    for k in range(steps):
        g = torch.Generator().manual_seed(seed + k)
        drawn = net.vectors(5, seed=seed + k)
        yield Batch(drawn.inputs, drawn.labels, rows=torch.randperm(10, generator=g)[:5]), net.vectors(6, seed=90 + k)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_under_a_schedule(name):
    """Scores and parameters equal those of a loop by hand: oracle gradient, the paper's update, the optimizer."""
    model = net.mlp().double()
    twin = copy.deepcopy(model)
    forml = FORML(model, 10, LossVariance(), score_step=PlainStep(scale=50.0), gradient="forward")
    scores = torch.zeros(10, dtype=torch.float64)
    optimizer, other = (OPTIMIZERS[name](m.parameters()) for m in (model, twin))
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (optimizer, other)]
    for batch, exemplar in batches():
        record = forml.step(batch, exemplar, optimizer)
        lr = float(other.param_groups[0]["lr"])
        value = partial(oracle.whole_map, twin, batch, exemplar, objective=oracle.variance, lr=lr)
        g = oracle.gradient(lambda w, value=value: value(scores=w), scores[batch.rows])
        assert oracle.error(record.gradient, g) < 1e-8
        scores[batch.rows] -= 50.0 * lr * g
        other.zero_grad()
        (torch.softmax(scores[batch.rows], 0) * oracle.cross_entropy(twin(batch.inputs), batch.labels)).sum().backward()
        other.step()
        for schedule in schedules:
            schedule.step()
    torch.testing.assert_close(forml.scores, scores, rtol=1e-6, atol=1e-12)
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-6, atol=1e-9)


# -- signs ----------------------------------------------------------------------------------------------


def test_scores_rise_where_descent_lowers_the_objective_and_reverse_flips():
    """METHODS F1: a wrong label hurts the exemplars; plain lowers its score, reverse raises it."""
    torch.manual_seed(1)
    x = torch.randn(12, 4).double()
    truth = (x[:, 0] > 0).long()
    labels = truth.clone()
    labels[:3] = 1 - labels[:3]
    exemplar = Batch(torch.randn(40, 4).double(), torch.zeros(40, dtype=torch.int64))
    exemplar = Batch(exemplar.inputs, (exemplar.inputs[:, 0] > 0).long())
    batch = Batch(x, labels, rows=torch.arange(12))
    found = {}
    for look, step in ((False, False), (True, False), (False, True), (True, True)):
        model = nn.Linear(4, 2).double()
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        forml = FORML(
            model, 12, MeanLoss(), LookAhead(reverse=look), PlainStep(scale=10.0, reverse=step), gradient="forward"
        )
        forml.step(batch, exemplar, torch.optim.SGD(model.parameters(), 0.1))
        found[look, step] = forml.scores
    plain = found[False, False]
    assert float(plain[:3].mean()) < 0 < float(plain[3:].mean())
    for one in ((True, False), (False, True)):
        assert float(found[one][:3].mean()) > 0 > float(found[one][3:].mean())
    assert torch.equal(found[False, True], -plain)
    assert oracle.error(found[True, True], plain) < 0.2  # twice reversed is the plain method to first order


def test_one_step_of_the_paper_by_hand():
    """w ← w − scale · lr · g, in the batch alone, and the moves of a batch cancel."""
    model = net.mlp().double()
    batch, exemplar = next(batches())
    forml = FORML(model, 10, MaxLossDiscrepancy(), score_step=PlainStep(scale=7.0))
    g = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.spread, 0.1), torch.zeros(5).double()
    )
    forml.step(batch, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    expected = torch.zeros(10).double()
    expected[batch.rows] = -7.0 * 0.1 * g
    assert oracle.error(forml.scores, expected) < 1e-8
    assert abs(float(forml.scores.sum())) < 1e-16 < float(forml.scores.abs().max())


@pytest.mark.parametrize("form", ["softmax", "logit-scale", "inverse-square", "raw-mean", "sigmoid"])
def test_training_with_every_weight_form(form):
    """The loss that is stepped on is the form's own, at the new scores."""
    totals = {
        "softmax": oracle.softmax_total,
        "logit-scale": oracle.logit_scale_total,
        "inverse-square": oracle.inverse_square_total,
        "raw-mean": oracle.raw_mean_total,
        "sigmoid": oracle.sigmoid_total,
    }
    model = net.mlp().double()
    twin = copy.deepcopy(model)
    forml = FORML(model, 10, LossVariance(), form=form, score_step=AdaptiveStep())
    optimizer, other = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, twin))
    assert torch.equal(forml.scores, torch.full((10,), forml.form.start).double())
    for batch, exemplar in batches():
        record = forml.step(batch, exemplar, optimizer)
        other.zero_grad()
        total = totals[form](forml.scores[batch.rows], twin(batch.inputs), batch.labels)
        total.backward()
        other.step()
        assert float(record.loss) == pytest.approx(float(total.detach()), rel=1e-12)
        assert float(record.weights.sum()) == pytest.approx(1.0)
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-12)
    assert float(forml.scores.std()) > 0
    assert float(forml.weights().mean()) == pytest.approx(1.0)


# -- precision ------------------------------------------------------------------------------------------


def in_float32(batch):
    return Batch(batch.inputs.float(), batch.labels, batch.groups, batch.rows)


@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
def test_bfloat16_autocast_is_near_float32(mode):
    model = net.mlp()
    start = copy.deepcopy(model.state_dict())
    found = []
    for autocast in (False, True):
        model.load_state_dict(start)
        forml = FORML(model, 10, LossVariance(), score_step=PlainStep(100.0), gradient=mode)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch, exemplar in batches():
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                record = forml.step(in_float32(batch), in_float32(exemplar), optimizer)
        assert torch.isfinite(forml.scores).all()
        found.append((forml.scores, record.loss, torch.cat([p.detach().flatten() for p in model.parameters()])))
    assert oracle.error(found[1][0], found[0][0]) < 0.1
    assert float(found[1][1]) == pytest.approx(float(found[0][1]), rel=0.02)
    assert oracle.error(found[1][2], found[0][2]) < 0.01


def test_steps_inside_one_autocast_block_see_the_new_parameters():
    """Autocast keeps its copies of the parameters for the whole block; a step must not train on old ones."""
    model = net.mlp()
    start = copy.deepcopy(model.state_dict())
    ends = []
    for together in (False, True):
        model.load_state_dict(start)
        forml = FORML(model, 10, LossVariance(), gradient="forward")
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        with torch.autocast("cpu", torch.bfloat16) if together else nullcontext():
            for batch, exemplar in batches(6):
                with torch.autocast("cpu", torch.bfloat16):
                    forml.step(in_float32(batch), in_float32(exemplar), optimizer)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


def test_a_bfloat16_model_trains():
    model = net.mlp().bfloat16()
    forml = FORML(model, 10, LossVariance())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch, exemplar in batches():
        low = [Batch(b.inputs.bfloat16(), b.labels, rows=b.rows) for b in (batch, exemplar)]
        record = forml.step(*low, optimizer)
    assert forml.scores.dtype == torch.float32
    assert torch.isfinite(forml.scores).all()
    assert torch.isfinite(record.loss)


# -- size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie", [None, "label"])
def test_ten_million_samples(tie):
    model = net.mlp()
    began = time.process_time()
    forml = FORML(model, 10_000_000, LossVariance(), tie=tie, agreement_every=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    drawn = net.vectors(64, dtype=torch.float32)
    batch = Batch(drawn.inputs, drawn.labels, rows=torch.linspace(0, 9_999_999, 64).long())
    exemplar = net.vectors(30, seed=3, dtype=torch.float32)
    forml.step(batch, exemplar, optimizer)
    made = time.process_time()
    for _ in range(20):
        forml.step(batch, exemplar, optimizer)
    each = (time.process_time() - made) / 20
    assert made - began < 5
    assert each < 0.1  # a step touches its own rows alone
    assert float(forml.weights().mean()) == pytest.approx(1.0, rel=1e-4)
    assert int((forml._own != 0).sum()) <= 64


def test_scores_may_move_at_every_third_step_alone():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    forml = FORML(model, 9, every=3, agreement_every=0)
    batch = Batch(torch.randn(9, 4), torch.arange(9) % 3)
    moved = []
    for _ in range(7):
        before = forml.scores
        record = forml.step(batch, batch, optimizer)
        moved.append(not torch.equal(before, forml.scores))
        torch.testing.assert_close(record.weights, torch.softmax(forml.scores, 0))
    assert moved == [True, False, False, True, False, False, True]


def test_every_must_be_a_step():
    with pytest.raises(BadInput, match="every=0"):
        FORML(torch.nn.Linear(2, 2), 4, every=0)
