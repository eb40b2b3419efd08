"""MOEW's weight function, its bound, and the autoencoder's embedding."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd

from fairweight.errors import BadInput, NotBegun, ScoresMismatch, UnknownName
from fairweight.methods.moew import MOEW, autoencode
from fairweight.types import Batch


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def samples(labels, inputs=None) -> Batch:
    inputs = torch.zeros(len(labels), 1).double() if inputs is None else inputs
    return Batch(inputs, torch.tensor(labels))


def test_one_hot_labels_by_hand():
    model = BiasOnly()
    method = MOEW(model, 3, alpha=[0.5, -1.0])
    train = samples([0, 1, 1])
    method.begin(train)
    raw = [sigma(0.5), sigma(-1.0), sigma(-1.0)]
    weights = method.step(train, None, sgd(model)).weights
    assert weights.tolist() == pytest.approx([value / sum(raw) for value in raw], rel=1e-6)
    assert method.weights().tolist() == pytest.approx([3 * value / sum(raw) for value in raw], rel=1e-5)


def test_no_alpha_counts_all_alike():
    method = MOEW(model := BiasOnly(), 3)
    assert method.step(samples([0, 1, 1]), None, sgd(model)).weights.tolist() == pytest.approx([1 / 3] * 3)


def test_training_without_alpha_is_said_to_be_plain(caplog):
    MOEW(torch.nn.Linear(2, 2), 4).begin(Batch(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    assert "no alpha" in caplog.text
    caplog.clear()
    MOEW(torch.nn.Linear(2, 2), 4, alpha=[0.1, 0.2]).begin(Batch(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    assert not caplog.text


def test_two_classes_differ_by_at_most_2_1_in_the_unit_ball():
    """The largest ratio of two class weights lies near α = (.48, −.88)."""
    angle = torch.linspace(0, 2 * math.pi, 100_001, dtype=torch.float64)
    ratio = torch.sigmoid(torch.cos(angle)) / torch.sigmoid(torch.sin(angle))
    top = int(ratio.argmax())
    assert float(ratio[top]) == pytest.approx(2.1, abs=0.05)
    at = [float(torch.cos(angle[top])), float(torch.sin(angle[top]))]
    assert at == pytest.approx([0.48, -0.88], abs=0.01)
    method = MOEW(BiasOnly(), 2, alpha=at)
    method.begin(samples([0, 1]))
    weights = method.weights()
    assert float(weights[0] / weights[1]) == pytest.approx(float(ratio[top]), rel=1e-5)


def test_an_embedding_of_one_s_own():
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    method = MOEW(model := BiasOnly(), 3, alpha=[0.7, -0.2], embedding=z)
    batch = Batch(torch.zeros(2, 1).double(), torch.tensor([0, 1]), rows=torch.tensor([2, 0]))
    raw = [sigma(0.5), sigma(0.7)]
    assert method.step(batch, None, sgd(model)).weights.tolist() == pytest.approx(
        [value / sum(raw) for value in raw], rel=1e-6
    )


def clusters() -> Batch:
    """Inputs say which of four corners; the label says something else."""
    g = torch.Generator().manual_seed(0)
    corner = torch.arange(240) % 4
    x = torch.stack([corner % 2, corner // 2], dim=1).float() * 4 + torch.randn(240, 2, generator=g) * 0.1
    return Batch(torch.cat([x, torch.ones(240, 1)], dim=1), torch.arange(240) // 4 % 2)


@pytest.mark.slow
def test_the_embedding_tells_inputs_and_labels_apart():
    train = clusters()
    z = autoencode(train, 4, steps=1500, seed=1)
    assert z.shape == (240, 4)
    assert bool(((z >= 0) & (z <= 1)).all())
    kinds = torch.arange(240) % 4 * 2 + train.labels
    means = torch.stack([z[kinds == k].mean(dim=0) for k in range(8)])
    within = max(float((z[kinds == k] - means[k]).norm(dim=1).mean()) for k in range(8))
    between = torch.cdist(means, means) + torch.eye(8) * 9
    assert float(between.min()) > 3 * within


def test_the_embedding_draws_from_its_own_stream_and_changes_nothing():
    train = clusters()
    inputs, state = train.inputs.clone(), torch.get_rng_state()
    one = autoencode(train, 2, steps=20, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(train.inputs, inputs)
    torch.manual_seed(9)
    assert torch.equal(one, autoencode(train, 2, steps=20, seed=1))
    assert not torch.equal(one, autoencode(train, 2, steps=20, seed=2))


def test_begin_fits_the_autoencoder_once():
    train = clusters()
    model = torch.nn.Linear(3, 2)
    method = MOEW(model, 240, alpha=[1.0, -1.0], embedding="autoencoder", dimension=2, embedding_steps=20, seed=1)
    method.begin(train)
    expected = torch.sigmoid(autoencode(train, 2, steps=20, seed=1) @ torch.tensor([1.0, -1.0]))
    weights = method.weights()
    torch.testing.assert_close(weights, expected / expected.mean())
    resumed = MOEW(torch.nn.Linear(3, 2), 240, alpha=[1.0, -1.0], embedding="autoencoder", dimension=2, seed=7)
    resumed.load_state_dict(method.state_dict())
    resumed.begin(train)
    assert torch.equal(resumed.weights(), weights)


def test_what_it_cannot_work_with():
    with pytest.raises(UnknownName, match="'label', 'autoencoder'"):
        MOEW(BiasOnly(), 3, embedding="pca")
    with pytest.raises(BadInput, match="finite"):
        MOEW(BiasOnly(), 3, alpha=[float("nan")])
    with pytest.raises(BadInput, match=r"\[3, d\]"):
        MOEW(BiasOnly(), 3, alpha=[1.0], embedding=torch.zeros(2, 1))
    with pytest.raises(BadInput, match="2 numbers and the embedding 1"):
        MOEW(BiasOnly(), 3, alpha=[1.0, 2.0], embedding=torch.zeros(3, 1))
    with pytest.raises(BadInput, match="one per label"):
        MOEW(model := torch.nn.Linear(1, 3).double(), 3, alpha=[1.0, 2.0]).step(samples([0, 1, 2]), None, sgd(model))
    with pytest.raises(NotBegun, match="begin"):
        MOEW(model := BiasOnly(), 3, alpha=[1.0], embedding="autoencoder").step(samples([0, 1, 1]), None, sgd(model))
    pair = Batch((torch.zeros(3, 1), torch.zeros(3, 1)), torch.tensor([0, 1, 1]))
    with pytest.raises(BadInput, match="embedding='label'"):
        MOEW(BiasOnly(), 3, alpha=[1.0] * 10, embedding="autoencoder").begin(pair)
    given = MOEW(BiasOnly(), 3, alpha=[1.0], embedding=torch.zeros(3, 1))
    with pytest.raises(ScoresMismatch, match="3 samples"):
        MOEW(BiasOnly(), 4, alpha=[1.0], embedding=torch.zeros(4, 1)).load_state_dict(given.state_dict())
