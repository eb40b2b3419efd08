"""A score step that heeds how far exemplars agree: moves by hand, and scores that stay where nothing is said."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fairweight as fw
from fairweight.errors import BadInput, ScoresMismatch

NONE = torch.zeros(())
EVEN = torch.full((4,), 0.25, dtype=torch.float64)
GRADIENT = torch.tensor([0.1, -0.3, 0.2, 0.0], dtype=torch.float64)


def heard(*agreements, heed=1.0):
    step = fw.AdaptiveStep(heed=heed)
    for agreement in agreements:
        step.hear(torch.tensor(agreement))
    return step.move(GRADIENT, EVEN, 0.1, NONE) / fw.AdaptiveStep().move(GRADIENT, EVEN, 0.1, NONE)[:1]


def factor(*agreements, heed=1.0):
    """What the first member's move is multiplied by."""
    return float(heard(*agreements, heed=heed)[0])


def test_the_move_is_multiplied_by_the_reliability():
    assert factor(0.5) == pytest.approx(2 / 3)  # 2 r / (1 + r), what two halves say of the whole
    assert factor(0.5, heed=2.0) == pytest.approx(4 / 9)
    assert factor(1.0, heed=3.0) == pytest.approx(1.0)
    mean = (0.9 * 0.8 + 1.0 * 0.2) / 1.9  # a running mean: of two looks the later counts more
    assert factor(0.8, 0.2) == pytest.approx(2 * mean / (1 + mean))


def test_nothing_moves_where_halves_disagree_or_nobody_has_looked():
    assert factor(-0.4) == 0
    assert factor() == 0
    assert factor(0.0, heed=0.5) == 0


def test_by_default_agreement_is_not_heeded():
    step = fw.AdaptiveStep()
    assert not step.heeds
    step.hear(torch.tensor(-1.0))
    assert torch.equal(step.move(GRADIENT, EVEN, 0.1, NONE), fw.AdaptiveStep().move(GRADIENT, EVEN, 0.1, NONE))
    assert set(step.state_dict()) == {"running", "top_lr"}  # a run saved before there was a choice is resumed


def test_bad_settings():
    with pytest.raises(BadInput, match="heed=-1"):
        fw.AdaptiveStep(heed=-1.0)
    with pytest.raises(BadInput, match="agreement_every=100"):
        fw.FORML(nn.Linear(2, 2), 8, score_step=fw.AdaptiveStep(heed=1.0), agreement_every=0)


def train(exemplar, heed, *, blank=False, steps=40, tie=None, trace=False, resume_at=None):
    torch.manual_seed(0)
    n = 48
    labels = torch.arange(n) % 3
    inputs = torch.randn(n, 6, dtype=torch.float64)
    inputs[torch.arange(n), labels] += 2.0
    labels = torch.where(torch.arange(n) < 9, (labels + 1) % 3, labels)  # nine wrong ones
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    if blank:  # it says nothing yet, and learns so little that it stays so
        nn.init.zeros_(model[2].weight)
        nn.init.zeros_(model[2].bias)

    def made():
        step = fw.AdaptiveStep(heed=heed)
        made = fw.FORML(model, n, score_step=step, gradient="forward", tie=tie, agreement_every=4)
        if trace:
            made.compile("eager")
        return made

    forml = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4 if blank else 0.1)
    for step in range(steps):
        if step == resume_at:
            state, forml = copy.deepcopy(forml.state_dict()), made()
            forml.load_state_dict(state)
        rows = torch.arange(16) + 16 * (step % 3)
        forml.step(fw.Batch(inputs[rows], labels[rows], rows=rows), exemplar(step), optimizer)
    return forml


def telling(step):
    g = torch.Generator().manual_seed(1)
    labels = torch.arange(24) % 3
    inputs = torch.randn(24, 6, dtype=torch.float64, generator=g)
    inputs[torch.arange(24), labels] += 2.0
    return fw.Batch(inputs, labels)


def noise(step):
    g = torch.Generator().manual_seed(step)
    inputs = torch.randn(24, 6, dtype=torch.float64, generator=g)
    return fw.Batch(inputs, torch.arange(24) % 3)


def test_scores_stay_where_exemplars_say_nothing_and_move_where_they_do():
    # a trained model would learn even from noise: that it should doubt
    still, moved = (float(train(noise, heed, blank=True).scores.std()) for heed in (2.0, 0.0))
    assert still < 0.25 * moved
    heeding, plain = (train(telling, heed).scores for heed in (2.0, 0.0))
    assert float(heeding.std()) > 0.4 * float(plain.std())
    assert float(heeding[:9].mean()) < float(heeding[9:].mean()) - 0.3  # the wrong labels fell


@pytest.mark.slow
@pytest.mark.parametrize("tie", [None, "label"])
def test_traced_heeds_as_one_by_one(tie):
    one_by_one, traced = (train(telling, 2.0, tie=tie, trace=trace) for trace in (False, True))
    assert traced._traced.traces == 1
    torch.testing.assert_close(one_by_one.scores, traced.scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tie", [None, "label"])
def test_what_was_heard_survives_a_resume(tie):
    whole, resumed = (train(telling, 2.0, tie=tie, resume_at=at).scores for at in (None, 7))
    assert torch.equal(whole, resumed)


def test_scores_of_another_rule_are_refused():
    with pytest.raises(ScoresMismatch, match="another score_step"):
        train(telling, 2.0, steps=2).load_state_dict(train(telling, 0.0, steps=2).state_dict())
