"""How far scores move: the paper's rule by hand, and a rule that no scale can break."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.errors import BadInput
from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, PlainStep, ScoreStep
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

NONE = torch.zeros(())
EVEN = torch.full((4,), 0.25)


def test_the_papers_step_by_hand():
    g = torch.tensor([0.5, -1.0, 0.25, 0.25])
    torch.testing.assert_close(PlainStep().move(g, EVEN, 0.1, NONE), -0.1 * g)
    torch.testing.assert_close(PlainStep(scale=30.0).move(g, EVEN, 0.1, NONE), -3.0 * g)
    torch.testing.assert_close(PlainStep(reverse=True).move(g, EVEN, 0.1, NONE), 0.1 * g)
    far = torch.tensor([-1e9, 1e9])
    assert torch.equal(PlainStep().limit(far, 0.0), far)  # the paper bounds nothing
    assert PlainStep(2.0, True).fresh() == PlainStep(2.0, True)


def test_the_first_adaptive_step_by_hand():
    """rate · (g / p) / rms(g / p), before anybody was visited."""
    g, p = torch.tensor([0.1, -0.3, 0.2, 0.0]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    per_weight = g / p
    expected = -0.3 * per_weight / per_weight.square().mean().sqrt()
    torch.testing.assert_close(AdaptiveStep().move(g, p, 0.1, NONE), expected)


def test_the_running_magnitude_by_hand():
    step, rule = AdaptiveStep(rate=1.0, memory=0.9, slowing=0.0), []
    for k in range(5):
        g = torch.randn(4).double() * 10**k
        rule.append(float((g / 0.25).square().mean()))
        found = step.move(g, EVEN.double(), 0.1, NONE)
        weights = [0.9 ** (k - j) for j in range(k + 1)]
        mean = sum(w * r for w, r in zip(weights, rule, strict=True)) / sum(weights)
        torch.testing.assert_close(found, -(g / 0.25) / math.sqrt(mean))


def test_it_slows_with_the_visits():
    g = torch.randn(4)
    first = AdaptiveStep().move(g, EVEN, 0.1, torch.tensor(0.0))
    torch.testing.assert_close(AdaptiveStep().move(g, EVEN, 0.1, torch.tensor(3.0)), first / 2)
    torch.testing.assert_close(AdaptiveStep(slowing=1.0).move(g, EVEN, 0.1, torch.tensor(3.0)), first / 4)


def test_it_follows_the_learning_rate():
    """A tenth of the largest rate seen moves a tenth as far, whatever the rate itself is."""
    for top in (1e-5, 0.1, 10.0):
        step = AdaptiveStep(memory=0.0)
        g = torch.randn(4)
        full = step.move(g, EVEN, top, NONE)
        torch.testing.assert_close(step.move(g, EVEN, top / 10, NONE), full / 10)
        torch.testing.assert_close(step.move(g, EVEN, 0.0, NONE), full * 0)
    assert torch.equal(AdaptiveStep().move(torch.randn(4), EVEN, 0.0, NONE), torch.zeros(4))


@given(scale=st.floats(-25, 25), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_it_is_free_of_scale(scale, seed):
    g = torch.Generator().manual_seed(seed)
    plain, scaled = AdaptiveStep(), AdaptiveStep()
    for _ in range(4):
        drawn = torch.randn(6, generator=g)
        p = torch.softmax(torch.randn(6, generator=g), 0)
        one, two = plain.move(drawn, p, 0.1, NONE), scaled.move(drawn * 10**scale, p, 0.1, NONE)
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1e-25, 1e-30, 1e-36, 1e25])
def test_tiny_and_huge_gradients_do_not_explode(size):
    step = AdaptiveStep()
    for _ in range(50):
        moved = step.move(torch.randn(64) * size, torch.full((64,), 1 / 64), 0.1, NONE)
        assert torch.isfinite(moved).all()
        assert float(moved.abs().max()) < 2.0


def test_no_gradient_moves_nobody_and_a_batch_after_silence_is_bounded():
    step = AdaptiveStep()
    for _ in range(1000):
        assert torch.equal(step.move(torch.zeros(4), EVEN, 0.1, NONE), torch.zeros(4))
    moved = step.move(torch.randn(4), EVEN, 0.1, NONE)
    assert torch.isfinite(moved).all()
    assert float(moved.abs().max()) <= 0.3 * math.sqrt(4 / 0.01) + 1e-3  # by the share of one batch in the memory


def test_a_batch_with_nothing_to_say_moves_little():
    step = AdaptiveStep()
    loud = torch.randn(4)
    for _ in range(20):
        step.move(loud, EVEN, 0.1, NONE)
    quiet = step.move(loud * 1e-3, EVEN, 0.1, NONE)
    assert float(quiet.abs().max()) < 2e-3


def test_a_member_without_weight_does_not_move():
    moved = AdaptiveStep().move(torch.tensor([0.5, -0.5, 0.0]), torch.tensor([0.5, 0.5, 0.0]), 0.1, NONE)
    assert torch.isfinite(moved).all()
    assert float(moved[2]) == 0.0


def test_bounds():
    far = torch.tensor([-9.0, -3.0, 0.0, 1.0, 9.0])
    assert AdaptiveStep().limit(far, 0.0).tolist() == [-3.0, -3.0, 0.0, 1.0, 1.0]
    assert AdaptiveStep(fall=1.0, rise=2.0).limit(far, 1.0).tolist() == [0.0, 0.0, 0.0, 1.0, 3.0]


def test_its_memory_is_saved_and_restored_bit_for_bit():
    step = AdaptiveStep()
    for _ in range(7):
        step.move(torch.randn(4), EVEN, 0.1, NONE)
    saved = step.state_dict()
    kept = copy.deepcopy(saved)
    other = AdaptiveStep()
    other.load_state_dict(saved)
    for _ in range(5):
        g = torch.randn(4)
        assert torch.equal(step.move(g, EVEN, 0.05, NONE), other.move(g, EVEN, 0.05, NONE))
    assert torch.equal(saved["running"], kept["running"])  # a state that was saved does not move on
    fresh = AdaptiveStep()
    fresh.load_state_dict(AdaptiveStep().state_dict())
    assert torch.equal(fresh.move(g, EVEN, 0.1, NONE), AdaptiveStep().move(g, EVEN, 0.1, NONE))


def test_a_memory_saved_on_one_device_serves_on_another():
    step = AdaptiveStep()
    step.move(torch.randn(4), EVEN, 0.1, NONE)
    other = AdaptiveStep()
    other.load_state_dict(step.state_dict())
    moved = other.move(torch.randn(4, device="meta"), EVEN.to("meta"), 0.1, NONE.to("meta"))
    assert moved.device.type == "meta"


@pytest.mark.parametrize(
    "bad",
    [
        {"rate": 0.0},
        {"rate": -1.0},
        {"fall": 0.0},
        {"rise": -1.0},
        {"memory": 1.0},
        {"memory": -0.1},
        {"slowing": -1.0},
    ],
)
def test_bad_settings(bad):
    with pytest.raises(BadInput, match="give a number"):
        AdaptiveStep(**bad)


# -- in training ----------------------------------------------------------------------------------------


def path(objective, *, step=None, steps=25, look_ahead=None, lr=0.1, dtype=torch.float64, gradient="forward"):
    """The scores after training on ten rows."""
    torch.manual_seed(0)
    model = net.mlp().to(dtype)
    forml = FORML(model, 10, objective, look_ahead or LookAhead(), step, gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    g = torch.Generator().manual_seed(4)
    data, exemplar = net.vectors(10, seed=2, dtype=dtype), net.vectors(9, seed=3, dtype=dtype)
    for _ in range(steps):
        forml.step(data.take(torch.randperm(10, generator=g)[:5]), exemplar, optimizer)
    return forml.scores


@pytest.mark.parametrize("factor", [1e-6, 1e6, 1e-12])
def test_the_scale_of_the_objective_does_not_matter(factor):
    plain = path(LossVariance())
    assert oracle.error(path(factor * LossVariance()), plain) < 1e-9
    assert float(plain.std()) > 0.05


def test_the_scale_of_the_objective_does_not_matter_in_float32():
    plain = path(LossVariance(), dtype=torch.float32)
    for factor in (1e-6, 1e6):
        assert oracle.error(path(factor * LossVariance(), dtype=torch.float32), plain) < 1e-3


def test_the_rate_of_the_look_ahead_matters_through_its_point_alone():
    near, nearer = (path(LossVariance(), look_ahead=LookAhead(lr=lr)) for lr in (1e-5, 1e-9))
    assert oracle.error(near, nearer) < 1e-3


@pytest.mark.parametrize("lr", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("objective", [MaxLossDiscrepancy(), MeanLoss() + LossVariance()], ids=["max", "default"])
def test_scores_stay_within_bounds(objective, lr):
    found = path(objective, step=AdaptiveStep(rate=2.0, slowing=0.0), steps=60, lr=lr)
    assert torch.isfinite(found).all()
    assert float(found.min()) >= -3.0
    assert float(found.max()) <= 1.0
    assert float(found.max() - found.min()) > 1.0  # the bounds were put to the test


def test_an_objective_without_slope_moves_nobody():
    for step in (AdaptiveStep(), PlainStep(1e6)):
        assert torch.equal(path(0.0 * LossVariance(), step=step), torch.zeros(10).double())


def test_moves_of_the_plain_step_cancel_within_a_batch():
    torch.manual_seed(0)
    model = net.mlp().double()
    forml = FORML(model, 10, LossVariance(), score_step=PlainStep(1000.0))
    forml._own.copy_(torch.randn(10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = net.vectors(10, seed=2)
    for k in range(4):
        before = forml.scores
        forml.step(data.take(torch.randperm(10)[: 3 + k]), net.vectors(9, seed=3), optimizer)
        moved = forml.scores - before
        assert abs(float(moved.sum())) < 1e-12 * float(moved.abs().max()) * 100
        assert float(moved.abs().max()) > 1e-3


def test_a_rule_of_the_users_own():
    class Sign(ScoreStep):
        def move(self, gradient, weights, lr, visits):
            return -0.01 * gradient.sign()

    found = path(LossVariance(), step=Sign(), steps=1)
    assert set(found.abs().round(decimals=6).tolist()) == {0.0, 0.01}


def test_two_methods_do_not_share_the_memory_of_one_rule():
    rule = AdaptiveStep()
    alone = path(LossVariance(), step=AdaptiveStep())
    path(1e6 * LossVariance(), step=rule)
    assert torch.equal(path(LossVariance(), step=rule), alone)
    assert rule.state_dict()["running"] is None  # what was given is not changed


def test_a_row_drawn_twice_moves_by_both_gradients():
    model = nn.Linear(6, 3).double()
    nn.init.normal_(model.weight)
    forml = FORML(model, 4, LossVariance(), score_step=PlainStep(10.0), gradient="forward")
    drawn = net.vectors(4, seed=2)
    twice = Batch(drawn.inputs, drawn.labels, rows=torch.tensor([2, 0, 2, 1]))
    record = forml.step(twice, net.vectors(9, seed=3), torch.optim.SGD(model.parameters(), 0.1))
    g = record.gradient
    expected = -1.0 * torch.stack([g[1], g[3], g[0] + g[2], torch.zeros(()).double()])
    torch.testing.assert_close(forml.scores, expected)
    torch.testing.assert_close(record.weights, torch.softmax(forml.scores[twice.rows], 0))
