"""State that continues bit for bit, states of other runs refused, and how well two halves agree."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle

from fairweight.errors import ScoresMismatch
from fairweight.metagradient.agreement import halves
from fairweight.methods.forml import FORML
from fairweight.methods.score_step import AdaptiveStep, PlainStep
from fairweight.methods.uniform import Uniform
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

TRAIN = Batch(net.vectors(12, seed=2).inputs.float(), torch.arange(12) % 3, torch.arange(12) % 2, torch.arange(12))
EXEMPLAR = Batch(net.vectors(18, seed=3).inputs.float(), torch.arange(18) % 3)

SETTINGS = {
    "default": {},
    "plain": {"score_step": PlainStep(10.0)},
    "tied": {"tie": "cell"},
    "tied alone": {"tie": "label", "own": False},
    "difference": {"gradient": "difference"},
    "inverse square": {"form": "inverse-square"},
    "head": {"scope": "head"},
    "head, every second": {"scope": "head", "every": 2, "look_ahead": None, "tie": "label"},
    "block": {"scope": "2", "gradient": "forward"},
}


def run(forml, optimizer, start, steps):
    for k in range(start, start + steps):
        g = torch.Generator().manual_seed(k)
        forml.step(TRAIN.take(torch.randperm(12, generator=g)[:6]), EXEMPLAR, optimizer)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_saved_state_continues_bit_for_bit(name):
    model = net.mlp()
    forml = FORML(model, 12, **SETTINGS[name])
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    run(forml, optimizer, 0, 4)
    saved, weights, momentum = (
        forml.state_dict(),
        copy.deepcopy(model.state_dict()),
        copy.deepcopy(optimizer.state_dict()),
    )
    run(forml, optimizer, 4, 4)

    other_model = net.mlp()
    other = FORML(other_model, 12, **SETTINGS[name])
    other_optimizer = torch.optim.Adam(other_model.parameters(), 0.01)
    other_model.load_state_dict(weights)
    other_optimizer.load_state_dict(momentum)
    other.load_state_dict(saved)
    assert other.steps == 4
    run(other, other_optimizer, 4, 4)
    assert torch.equal(other.scores, forml.scores)
    assert torch.equal(other.weights(), forml.weights())
    for p, expected in zip(other_model.parameters(), model.parameters(), strict=True):
        assert torch.equal(p, expected)
    again, expected = other.state_dict(), forml.state_dict()
    assert again["mode"] == expected["mode"]
    assert torch.equal(again["visits"], expected["visits"])


def test_visits_are_counted_beyond_float32():
    """A float32 root has another last digit on some processors, and moved scores by 1e-8 of themselves."""
    model = net.mlp()
    forml = FORML(model, 12)
    for k in range(5):
        forml.step(TRAIN.take(torch.arange(k, k + 5)), EXEMPLAR, torch.optim.SGD(model.parameters(), 0.1))
    assert float(forml.state_dict()["visits"]) == pytest.approx(5 * 5 / 12, rel=1e-15)


def test_a_saved_state_does_not_move_on():
    model = net.mlp()
    forml = FORML(model, 12, tie="label")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run(forml, optimizer, 0, 2)
    saved = forml.state_dict()
    kept = copy.deepcopy(saved)
    run(forml, optimizer, 2, 2)
    assert torch.equal(saved["own"], kept["own"])
    assert torch.equal(saved["ties"]["scores"], kept["ties"]["scores"])
    assert torch.equal(saved["visits"], kept["visits"])
    loaded = FORML(model, 12, tie="label")
    loaded.load_state_dict(saved)
    run(loaded, optimizer, 4, 1)
    assert torch.equal(saved["own"], kept["own"])  # nor when the one who loaded it does


def test_a_state_holds_tensors_and_plain_values_alone():
    model = net.mlp()
    forml = FORML(model, 12, tie="cell")
    run(forml, torch.optim.SGD(model.parameters(), 0.1), 0, 1)

    def look(value):
        if isinstance(value, dict):
            for key, item in value.items():
                assert isinstance(key, str)
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)
        else:
            assert value is None or isinstance(value, torch.Tensor | str | int | float | bool)

    look(forml.state_dict())


@pytest.mark.parametrize(
    ("here", "there", "sentence"),
    [
        (
            {},
            {"num_samples": 13},
            "are of 12 samples and this FORML is for 13: resume with the training set",
        ),
        ({}, {"tie": "label"}, "another tie; give the same as that run"),
        ({"tie": "group"}, {"tie": "label"}, "another tie"),
        ({"tie": "cell"}, {"tie": "label"}, "another tie"),
        ({"tie": "cell"}, {}, "another tie"),
        ({"scope": "head"}, {}, "another scope"),
        ({}, {"scope": "head"}, "another scope"),
        ({}, {"score_step": PlainStep()}, "another score_step"),
        ({"score_step": PlainStep()}, {}, "another score_step"),
        ({"form": "inverse-square"}, {}, "another form"),
    ],
)
def test_the_state_of_another_setting_is_refused_and_changes_nothing(here, there, sentence):
    model = net.mlp()
    saved = FORML(model, 12, **here)
    run(saved, torch.optim.SGD(model.parameters(), 0.1), 0, 2)
    other = FORML(model, **{"num_samples": 12, **there})
    before = other.state_dict()
    with pytest.raises(ScoresMismatch, match=sentence):
        other.load_state_dict(saved.state_dict())
    assert other.steps == 0
    assert torch.equal(other.state_dict()["own"], before["own"])


def test_the_state_of_another_method_is_refused():
    model = net.mlp()
    with pytest.raises(ScoresMismatch, match="resume with the training set of that run, or start a new one"):
        FORML(model, 12).load_state_dict(Uniform(model, 12).state_dict())


def test_shared_scores_that_nobody_asks_for_are_not_looked_at():
    forml = FORML(net.mlp(), 12)
    forml.load_state_dict({**forml.state_dict(), "ties": {"scores": 7}})
    assert torch.equal(forml.scores, torch.zeros(12))


def test_scores_are_a_copy():
    forml = FORML(net.mlp(), 12)
    forml.scores.fill_(5.0)
    assert torch.equal(forml.scores, torch.zeros(12))


def test_the_default_is_what_the_record_chose():
    forml = FORML(net.mlp(), 12)
    assert repr(forml.objective) == "1 * MeanLoss(natural=True) + 1 * LossVariance(root=False)"
    assert repr(forml.score_step) == repr(AdaptiveStep())
    assert forml.gradient == "auto"
    assert torch.equal(forml.weights(), torch.ones(12))


# -- agreement ------------------------------------------------------------------------------------------


def test_halves_hold_the_same_cells():
    exemplar = Batch(torch.zeros(14), [0, 1] * 7, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1])
    one, two = halves(exemplar)
    assert len(one) == len(two) == 7
    assert not set(one.tolist()) & set(two.tolist())
    cells = [sorted(zip(exemplar.labels[h].tolist(), exemplar.groups[h].tolist(), strict=True)) for h in (one, two)]
    counts = [{c: cell.count(c) for c in set(cell)} for cell in cells]
    assert all(abs(counts[0][c] - counts[1][c]) <= 1 for c in counts[0])


def cosine_by_hand(model, train, exemplar, objective):
    """Pulls of both halves at θ, each by its own loop over the samples."""
    pulls = []
    order = sorted(range(len(exemplar)), key=lambda i: int(exemplar.labels[i]))
    for half in (order[0::2], order[1::2]):
        losses = oracle.cross_entropy(model(exemplar.inputs[half]), exemplar.labels[half])
        v = torch.autograd.grad(objective(losses, exemplar.labels[half]), list(model.parameters()))
        s = []
        for i in range(len(train)):
            own = oracle.cross_entropy(model(train.inputs[i : i + 1]), train.labels[i : i + 1]).sum()
            s.append(
                sum((a * b).sum() for a, b in zip(torch.autograd.grad(own, list(model.parameters())), v, strict=True))
            )
        pulls.append(torch.stack(s) - torch.stack(s).mean())
    return float(torch.nn.functional.cosine_similarity(*pulls, dim=0))


@pytest.mark.parametrize("mode", ["forward", "double-backward", "difference"])
@pytest.mark.parametrize("factor", [1.0, 1e-20])
def test_the_agreement_of_two_halves(mode, factor):
    model = net.mlp().double()
    train, exemplar = (Batch(b.inputs.double(), b.labels) for b in (TRAIN, EXEMPLAR))
    forml = FORML(model, 12, factor * LossVariance(), gradient=mode, agreement_every=2)
    expected = cosine_by_hand(model, train, exemplar, oracle.variance)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    seen = [forml.step(train, exemplar, optimizer).agreement for _ in range(3)]
    assert float(seen[0]) == pytest.approx(expected, abs=1e-5)
    assert seen[1] is None
    assert seen[2] is not None


def test_the_same_exemplars_twice_agree_and_noise_does_not():
    model = net.mlp()
    doubled = Batch(EXEMPLAR.inputs.repeat_interleave(2, 0), EXEMPLAR.labels.repeat_interleave(2))
    record = FORML(model, 12, MeanLoss()).step(TRAIN, doubled, torch.optim.SGD(model.parameters(), 0.1))
    assert float(record.agreement) == pytest.approx(1.0, abs=1e-4)


def test_the_agreement_is_never_nan():
    model = net.mlp()
    for exemplar, objective in (
        (EXEMPLAR.take(torch.tensor([0])), MeanLoss()),
        (EXEMPLAR.take(torch.tensor([0, 1])), MaxLossDiscrepancy()),  # each half has one group: nothing to pull at
        (EXEMPLAR, lambda losses, groups: torch.tensor(1.0)),
    ):
        record = FORML(model, 12, objective).step(TRAIN, exemplar, torch.optim.SGD(model.parameters(), 0.1))
        assert record.agreement is None or float(record.agreement) == 0.0


def test_a_look_at_agreement_changes_nothing():
    found = []
    for every in (0, 1):
        torch.manual_seed(0)
        model = net.dropout()
        forml = FORML(model, 12, LossVariance(), agreement_every=every)
        run(forml, torch.optim.SGD(model.parameters(), 0.1), 0, 3)
        found.append((forml.scores, model[0].weight.detach().clone(), torch.get_rng_state()))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
