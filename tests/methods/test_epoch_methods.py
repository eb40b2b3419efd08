"""JTT and class difficulty: what they make of an epoch's predictions."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd

from fairweight.errors import BadInput, MissingExemplar, NotBegun, RowsOutOfRange, ScoresMismatch
from fairweight.methods.class_difficulty import ClassDifficulty, difficulty_weights
from fairweight.methods.jtt import JTT
from fairweight.types import Batch


def samples(labels, rows=None) -> Batch:
    return Batch(
        torch.zeros(len(labels), 1).double(),
        torch.tensor(labels),
        rows=None if rows is None else torch.tensor(rows),
    )


# -- just train twice ---------------------------------------------------------------------------


def test_errors_are_taken_once_and_weighed_up():
    model = BiasOnly()
    train = samples([0, 1, 0, 1])
    method = JTT(model, 4, identify_epochs=2, upweight=5.0)
    method.begin(train)
    method.on_epoch(1, lambda given: torch.tensor([1, 1, 1, 1]))
    assert method.step(train, None, sgd(model)).weights.tolist() == [0.25] * 4
    method.on_epoch(2, lambda given: torch.tensor([0, 0, 0, 1]))
    assert method.errors.tolist() == [1]
    method.on_epoch(3, lambda given: torch.tensor([1, 0, 1, 0]))
    assert method.errors.tolist() == [1]
    assert method.step(train, None, sgd(model)).weights.tolist() == pytest.approx([1 / 8, 5 / 8, 1 / 8, 1 / 8])
    assert method.weights().tolist() == pytest.approx([0.5, 2.5, 0.5, 0.5])


def test_errors_of_an_earlier_run():
    model = BiasOnly()
    method = JTT(model, 4, upweight=3.0, errors=[0, 2])
    method.begin(samples([0, 1, 0, 1]))
    method.on_epoch(1, lambda given: torch.tensor([1, 0, 1, 0]))
    assert method.errors.tolist() == [0, 2]
    batch = samples([0, 1], rows=[2, 3])
    assert method.step(batch, None, sgd(model)).weights.tolist() == pytest.approx([0.75, 0.25])


def test_errors_are_kept_by_row():
    method = JTT(BiasOnly(), 10)
    method.begin(samples([0, 1, 0], rows=[7, 2, 5]))
    method.on_epoch(1, lambda given: torch.tensor([0, 0, 1]))
    assert method.errors.tolist() == [2, 5]


def test_jtt_asks_for_what_it_needs():
    with pytest.raises(NotBegun, match="begin"):
        JTT(BiasOnly(), 4).on_epoch(1, lambda given: given.labels)
    for options in ({"identify_epochs": 0}, {"upweight": 0.0}):
        with pytest.raises(BadInput, match="JTT"):
            JTT(BiasOnly(), 4, **options)
    with pytest.raises(RowsOutOfRange, match="num_samples"):
        JTT(BiasOnly(), 4, errors=[4])
    with pytest.raises(ScoresMismatch, match="5 samples"):
        JTT(BiasOnly(), 4).load_state_dict(JTT(BiasOnly(), 5).state_dict())


# -- class difficulty ---------------------------------------------------------------------------


def test_difficulty_by_hand():
    """Accuracies 1/2 and 9/10 with τ = 2: (1/2)² and (1/10)²."""
    found = difficulty_weights(torch.tensor([5, 9]), torch.tensor([10, 10]), 2.0)
    assert found.tolist() == pytest.approx([0.25 / 0.13, 0.01 / 0.13])


def test_tau_grows_with_the_gap():
    bias = 0.9 / 0.51 - 1
    tau = 2 / (1 + math.exp(-bias))
    raw = [0.5**tau, 0.1**tau]
    found = difficulty_weights(torch.tensor([5, 9]), torch.tensor([10, 10]))
    assert found.tolist() == pytest.approx([2 * value / sum(raw) for value in raw])
    even = difficulty_weights(torch.tensor([7, 7]), torch.tensor([10, 10]))
    assert even.tolist() == pytest.approx([1.0, 1.0])


def test_what_was_not_measured_and_what_never_errs():
    assert difficulty_weights(torch.tensor([10, 10]), torch.tensor([10, 10])).tolist() == [1.0, 1.0]
    assert difficulty_weights(torch.tensor([0, 5, 8]), torch.tensor([0, 10, 10]), 1.0).tolist() == pytest.approx(
        [1.0, 0.5 / 0.35, 0.2 / 0.35]
    )
    assert difficulty_weights(torch.tensor([0, 0]), torch.tensor([0, 0])).tolist() == [1.0, 1.0]


def test_weights_follow_the_exemplar_set_after_each_epoch():
    model = BiasOnly()
    train, exemplar = samples([0, 1, 1]), samples([0, 0, 1, 1])
    method = ClassDifficulty(model, 3, tau=1.0)
    method.begin(train, exemplar)
    assert method.step(train, None, sgd(model)).weights.tolist() == pytest.approx([1 / 3] * 3)
    method.on_epoch(1, lambda given: torch.tensor([1, 1, 0, 1]) if given is exemplar else given.labels)
    # accuracies 0 and 1/2: difficulties 1 and 1/2
    assert method.step(train, None, sgd(model)).weights.tolist() == pytest.approx([0.5, 0.25, 0.25])
    method.on_epoch(2, lambda given: torch.tensor([0, 0, 0, 0]))
    assert method.step(train, None, sgd(model)).weights.tolist() == pytest.approx([0.0, 0.5, 0.5])


def test_a_batch_of_mastered_classes_moves_nothing():
    model = BiasOnly()
    method = ClassDifficulty(model, 3, tau=1.0, measured_on="train")
    train = samples([0, 1, 1])
    method.begin(train)
    method.on_epoch(1, lambda given: torch.tensor([0, 0, 1]))
    before = model.b.item()
    record = method.step(samples([0]), None, sgd(model))
    assert record.weights.tolist() == [0.0]
    assert model.b.item() == before


def test_class_difficulty_asks_for_what_it_needs():
    with pytest.raises(MissingExemplar, match="measured_on='train'"):
        ClassDifficulty(BiasOnly(), 3).begin(samples([0, 1, 1]))
    with pytest.raises(NotBegun, match="begin"):
        ClassDifficulty(BiasOnly(), 3).on_epoch(1, lambda given: given.labels)
    with pytest.raises(BadInput, match="tau"):
        ClassDifficulty(BiasOnly(), 3, tau=-1.0)
