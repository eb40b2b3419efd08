"""Class-balanced, proportion, random and focal weights against numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd
from torch import nn

from fairweight.errors import BadInput, MissingGroups, RowsOutOfRange, UnknownName
from fairweight.methods.class_balanced import ClassBalanced, effective_number_weights
from fairweight.methods.focal import Focal, miss_probability
from fairweight.methods.proportion import Proportion, proportion_weights
from fairweight.methods.random import Random, uniform
from fairweight.types import Batch

SIZES = torch.tensor([10, 30, 60])


def a_batch(labels, groups=None, rows=None) -> Batch:
    labels = torch.tensor(labels)
    return Batch(
        torch.zeros(len(labels), 1, dtype=torch.float64),
        labels,
        None if groups is None else torch.tensor(groups),
        None if rows is None else torch.tensor(rows),
    )


# -- class-balanced -----------------------------------------------------------------------------


def test_beta_0_counts_all_alike():
    assert effective_number_weights(SIZES, 0.0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("beta", [1.0, 1 - 1e-12])
def test_beta_to_1_is_inverse_frequency(beta):
    inverse = torch.tensor([1 / 10, 1 / 30, 1 / 60], dtype=torch.float64)
    torch.testing.assert_close(effective_number_weights(SIZES, beta), inverse / inverse.sum() * 3, rtol=1e-4, atol=0)


def test_effective_numbers_by_hand():
    effective = torch.tensor([(1 - 0.9**n) / 0.1 for n in (10, 30, 60)], dtype=torch.float64)
    expected = (1 / effective) * 3 / (1 / effective).sum()
    torch.testing.assert_close(effective_number_weights(SIZES, 0.9), expected)


def test_a_class_without_samples_counts_for_nothing():
    weights = effective_number_weights(torch.tensor([10, 0, 10]), 0.99)
    assert weights.tolist() == [1.0, 0.0, 1.0]


def test_class_balanced_weighs_a_batch_by_the_counts_of_the_training_set():
    train = a_batch([0] * 3 + [1] * 1)
    method = ClassBalanced(model := BiasOnly(), 4, beta=1.0)
    method.begin(train)
    record = method.step(a_batch([0, 0, 1], rows=[0, 1, 3]), None, sgd(model))
    torch.testing.assert_close(record.weights, torch.tensor([1 / 5, 1 / 5, 3 / 5], dtype=torch.float64))
    torch.testing.assert_close(method.weights(), torch.tensor([2 / 3, 2 / 3, 2 / 3, 2.0]))


def test_without_begin_the_counts_are_those_of_the_batches_seen():
    method = ClassBalanced(model := BiasOnly(), 40, beta=0.99)
    method.step(a_batch([0, 0, 0, 1]), None, sgd(model))
    record = method.step(a_batch([1, 1, 0, 0]), None, sgd(model))  # seen so far: 5 of 0 and 3 of 1, of 40
    expected = effective_number_weights(torch.tensor([25.0, 15.0]), 0.99)[torch.tensor([1, 1, 0, 0])]
    torch.testing.assert_close(record.weights, expected / expected.sum(), rtol=1e-6, atol=0)


def test_inverse_frequency_finds_the_balanced_logit():
    """Labels 9 to 1: plain training ends at log(1/9), inverse frequency at 0."""
    model = BiasOnly()
    train = a_batch([0] * 9 + [1])
    method, optimizer = ClassBalanced(model, 10, beta=1.0), sgd(model, 2.0)
    method.begin(train)
    with torch.no_grad():
        model.b.fill_(math.log(1 / 9))
    for _ in range(100):
        method.step(train, None, optimizer)
    assert model.b.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("beta", [-0.1, 1.1])
def test_beta_outside_0_to_1(beta):
    with pytest.raises(BadInput, match="from 0 "):
        ClassBalanced(BiasOnly(), 4, beta=beta)


def test_labels_count_from_0():
    with pytest.raises(BadInput, match="label -1"):
        ClassBalanced(BiasOnly(), 2).begin(a_batch([0, -1]))


def test_a_label_that_the_training_set_does_not_have():
    method = ClassBalanced(model := nn.Linear(1, 3).double(), 2)
    method.begin(a_batch([0, 1]))
    with pytest.raises(BadInput, match="label 2, and ClassBalanced knows labels 0 to 1"):
        method.step(a_batch([0, 2]), None, sgd(model))


# -- proportion ---------------------------------------------------------------------------------


def test_proportion_of_the_paper():
    """68,261 men and 94,509 women: 1.192 and .861."""
    found = proportion_weights(torch.tensor([68_261, 94_509]))
    assert found.tolist() == pytest.approx([1.192, 0.861], abs=5e-4)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("label", [5 / 6, 5 / 6, 5 / 6, 5 / 4, 5 / 4]),
        ("group", [5 / 4, 5 / 4, 5 / 6, 5 / 6, 5 / 6]),
        ("cell", [5 / 6, 5 / 6, 5 / 3, 5 / 6, 5 / 6]),
    ],
)
def test_proportion_by_label_group_and_cell(by, expected):
    train = a_batch([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])
    method = Proportion(model := BiasOnly(), 5, by=by)
    method.begin(train)
    assert method.weights().tolist() == pytest.approx(expected)
    weights = method.step(train, None, sgd(model)).weights
    torch.testing.assert_close(weights, torch.tensor(expected).double() / 5, rtol=1e-6, atol=0)


def test_a_sample_of_unknown_group_counts_as_the_average():
    method = Proportion(BiasOnly(), 5, by="group")
    method.begin(a_batch([0, 0, 0, 1, 1], [0, 1, 1, 1, -1]))
    each = method.weights()
    assert float(each[4]) == pytest.approx(float(each[:4].mean()))
    assert float(each[0]) == pytest.approx(3 * float(each[1]))


def test_proportion_asks_for_groups():
    with pytest.raises(MissingGroups, match="by='label'"):
        Proportion(BiasOnly(), 2).begin(a_batch([0, 1]))
    with pytest.raises(UnknownName, match="'label', 'group' or 'cell'"):
        Proportion(BiasOnly(), 2, by="colour")


def test_begin_with_another_number_of_samples():
    with pytest.raises(BadInput, match="num_samples=3"):
        Proportion(BiasOnly(), 2, by="label").begin(a_batch([0, 1, 1]))


def test_rows_of_a_part_of_the_source():
    """Rows 2 and 5 of 8: the others count 1."""
    method = Proportion(BiasOnly(), 8, by="label")
    method.begin(a_batch([0, 0, 1], rows=[2, 5, 7]))
    assert method.weights().tolist() == pytest.approx([1, 1, 0.75, 1, 1, 0.75, 1, 1.5])


def test_through_sampling_leaves_the_losses_even():
    train = a_batch([0, 0, 0, 1])
    method = Proportion(model := BiasOnly(), 4, by="label", through="sampling")
    method.begin(train)
    assert method.step(train, None, sgd(model)).weights.tolist() == [0.25] * 4
    assert method.sampling_weights().tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


# -- random -------------------------------------------------------------------------------------


def test_uniform_numbers_are_uniform_and_independent():
    rows = torch.arange(200_000)
    u = uniform(7, torch.zeros((), dtype=torch.int64), rows).double()
    later = uniform(7, torch.ones((), dtype=torch.int64), rows).double()
    assert float(u.min()) > 0
    assert float(u.max()) < 1
    error = 1 / math.sqrt(12 * len(rows))
    assert float(u.mean()) == pytest.approx(0.5, abs=4 * error)
    assert float(u.var()) == pytest.approx(1 / 12, rel=0.02)
    shares = torch.histc(u, bins=50, min=0, max=1) / len(u)
    assert float((shares - 0.02).abs().max()) < 4 * math.sqrt(0.02 / len(rows))
    for other in (later, u.roll(1)):
        assert abs(float(torch.corrcoef(torch.stack([u, other]))[0, 1])) < 4 / math.sqrt(len(rows))


def test_fixed_weights_stay_and_half_of_them_are_zero():
    method = Random(model := BiasOnly(), 10_000, seed=1)
    batch = a_batch([0, 1] * 50, rows=list(range(100)))
    first, second = (method.step(batch, None, sgd(model)).weights for _ in range(2))
    assert torch.equal(first, second)
    weights = method.weights()
    assert float((weights == 0).float().mean()) == pytest.approx(0.5, abs=0.02)
    torch.testing.assert_close(first, (weights[:100] / weights[:100].sum()).double(), rtol=1e-5, atol=0)
    # a half normal's mean is sqrt(1 / 2 pi) of all, its mean square 1/2
    assert float(weights.square().mean()) == pytest.approx(0.5 * 2 * math.pi, rel=0.05)


def test_redrawn_weights_change_at_every_step():
    method = Random(model := BiasOnly(), 100, kind="redrawn", seed=1)
    batch = a_batch([0, 1] * 50, rows=list(range(100)))
    first, second = (method.step(batch, None, sgd(model)).weights for _ in range(2))
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 0.4
    assert method.weights() is None


def test_uniform_weights_lie_between_a_tenth_and_nineteen_tenths():
    weights = Random(BiasOnly(), 10_000, kind="uniform", seed=1).weights()
    assert float(weights.min()) == pytest.approx(0.1, abs=0.02)
    assert float(weights.max()) == pytest.approx(1.9, abs=0.02)


def test_the_seed_is_torch_s_unless_given():
    torch.manual_seed(5)
    one, other = Random(BiasOnly(), 50).weights(), Random(BiasOnly(), 50, seed=5).weights()
    assert torch.equal(one, other)
    torch.manual_seed(6)
    assert not torch.equal(one, Random(BiasOnly(), 50).weights())


def test_a_saved_state_of_another_seed_is_refused():
    state = Random(BiasOnly(), 5, seed=1).state_dict()
    with pytest.raises(BadInput, match="seed=1"):
        Random(BiasOnly(), 5, seed=2).load_state_dict(state)


def test_random_needs_rows():
    with pytest.raises(RowsOutOfRange, match="rows"):
        Random(model := BiasOnly(), 5).step(a_batch([0, 1]), None, sgd(model))


def test_redrawn_weights_cannot_be_drawn_by():
    with pytest.raises(BadInput, match="redrawn"):
        Random(BiasOnly(), 5, kind="redrawn", through="sampling")


# -- focal --------------------------------------------------------------------------------------


def test_focal_by_hand():
    """Label 1 at p = 0.8 and label 0 at 1 − p = 0.2: factors 0.2² and 0.8²."""
    model = BiasOnly()
    with torch.no_grad():
        model.b.fill_(math.log(4.0))
    record = Focal(model, 2).step(a_batch([1, 0]), None, sgd(model, 1e-9))
    assert float(record.loss) == pytest.approx((0.04 * -math.log(0.8) + 0.64 * -math.log(0.2)) / 2)
    assert record.weights.tolist() == pytest.approx([0.04 / 0.68, 0.64 / 0.68])


def test_the_gradient_flows_through_the_factors():
    """d/dz of −(1−p)^γ log p is (1−p)^γ (γ p log p − (1−p)) for the true label's logit."""
    model, gamma, z = BiasOnly(), 2.0, 0.3
    with torch.no_grad():
        model.b.fill_(z)
    Focal(model, 1, gamma=gamma).backward(a_batch([1]), None, sgd(model))
    p = 1 / (1 + math.exp(-z))
    assert float(model.b.grad) == pytest.approx((1 - p) ** gamma * (gamma * p * math.log(p) - (1 - p)))


def test_gamma_0_is_plain_training():
    torch.manual_seed(0)
    model = nn.Linear(3, 4).double()
    batch = Batch(torch.randn(8, 3).double(), torch.arange(8) % 4)
    record = Focal(model, 8, gamma=0.0).step(batch, None, sgd(model))
    assert torch.equal(record.weights, torch.full((8,), 1 / 8, dtype=torch.float64))
    torch.testing.assert_close(record.loss, record.losses.mean())


def test_normalised_focal_keeps_the_scale():
    model = BiasOnly()
    with torch.no_grad():
        model.b.fill_(math.log(4.0))
    record = Focal(model, 2, normalised=True).step(a_batch([1, 0]), None, sgd(model, 1e-9))
    assert float(record.loss) == pytest.approx(float((record.weights * record.losses).sum()))


def test_a_certain_sample_leaves_the_gradient_finite():
    model = BiasOnly(torch.float32)
    with torch.no_grad():
        model.b.fill_(60.0)
    batch = Batch(torch.zeros(2, 1), torch.tensor([1, 1]))
    Focal(model, 2, gamma=0.5).backward(batch, None, sgd(model))
    assert bool(torch.isfinite(model.b.grad))


def test_miss_probability_is_exact_for_small_ones():
    logits = torch.tensor([[25.0, 0.0]], dtype=torch.float64)
    assert float(miss_probability(logits, torch.tensor([0]))) == pytest.approx(math.exp(-25), rel=1e-6)


def test_gamma_below_0():
    with pytest.raises(BadInput, match="gamma"):
        Focal(BiasOnly(), 2, gamma=-1.0)
