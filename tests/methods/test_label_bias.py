"""LB: the notebook's logged masses, violations by hand, and multipliers that reach a known answer."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd

from fairweight.errors import BadInput, MissingExemplar, MissingGroups, NotBegun
from fairweight.methods._violation import violation
from fairweight.methods.label_bias import LabelBias
from fairweight.types import Batch


def samples(labels, groups=None) -> Batch:
    labels = torch.as_tensor(labels)
    return Batch(torch.zeros(len(labels), 1).double(), labels, None if groups is None else torch.as_tensor(groups))


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(("multiplier", "mass"), [(-0.05112, 0.26868), (-0.13077, 0.25195), (-0.98988, 0.08589)])
def test_the_notebook_s_masses(multiplier, mass):
    """The share of label 2 is .2791; the log gives its mass under three multipliers, all with the digits shown."""
    n = 10_000
    train = samples([2] * 2791 + [0] * (n - 2791))
    method = LabelBias(
        BiasOnly(), n, constraint="rate", target={2: 0.1}, multipliers=[[0.0], [0.0], [multiplier]], online=False
    )
    method.begin(train)
    weights = method.weights().double()
    assert float(weights[:2791].sum() / weights.sum()) == pytest.approx(mass, abs=1e-5)


def test_the_rate_constraint_moves_one_label():
    """Label 2 is predicted for 3 of 10, and 1 of 10 is wanted: λ₂ falls by 0.2."""
    train = samples([0, 1, 2] * 3 + [2])
    method = LabelBias(BiasOnly(), 10, constraint="rate", target={2: 0.1})
    method.begin(train)
    method.on_epoch(1, lambda given: torch.tensor([2, 2, 2] + [0] * 7))
    assert method.multipliers.flatten().tolist() == pytest.approx([0.0, 0.0, -0.2])
    relative = method.relative(train)
    assert relative.tolist() == pytest.approx([0.5, 0.5, sigma(-0.4)] * 3 + [sigma(-0.4)])


def test_equal_opportunity_by_hand():
    """TPR: group 0 1/2, group 1 1, all 2/3; each group's negatives move the other way."""
    labels = torch.tensor([1, 1, 1, 0, 0])
    groups = torch.tensor([0, 0, 1, 0, 1])
    method = LabelBias(BiasOnly(), 5)
    method.begin(samples(labels, groups))
    assert method.constraint == "equal-opportunity"
    method.on_epoch(1, lambda given: torch.tensor([1, 0, 1, 0, 1]))
    up, down = 2 / 3 - 1 / 2, 2 / 3 - 1
    torch.testing.assert_close(method.multipliers, torch.tensor([[0, -up, -down], [0, up, down]]).double())
    each = method.relative(samples(labels, groups)).tolist()
    assert each == pytest.approx([sigma(2 * up), sigma(2 * up), sigma(2 * down), sigma(-2 * up), sigma(-2 * down)])


def test_equal_odds_moves_positives_and_negatives_apart():
    """TPR as above; FPR: group 0 0, group 1 1, all 1/2."""
    found = violation(
        "equal-odds",
        torch.tensor([1, 1, 1, 0, 0]),
        torch.tensor([0, 0, 1, 0, 1]),
        torch.tensor([1, 0, 1, 0, 1]),
        (2, 3),
    )
    expected = [[0, -(1 / 2 - 0), -(1 / 2 - 1)], [0, 2 / 3 - 1 / 2, 2 / 3 - 1]]
    torch.testing.assert_close(found, torch.tensor(expected).double())


def test_demographic_parity_by_hand():
    """Predicted rate: group 0 1/3, group 1 1, all 3/5."""
    found = violation(
        "demographic-parity",
        torch.tensor([1, 1, 1, 0, 0]),
        torch.tensor([0, 0, 1, 0, 1]),
        torch.tensor([1, 0, 1, 0, 1]),
        (2, 3),
    )
    up, down = 3 / 5 - 1 / 3, 3 / 5 - 1
    torch.testing.assert_close(found, torch.tensor([[0, -up, -down], [0, up, down]]).double())


def test_class_as_attribute_has_the_mean_recall_as_pivot():
    """Recall 1, 1/2 and 0: mean 1/2."""
    labels, predictions = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 0, 1, 0, 0, 1])
    method = LabelBias(BiasOnly(), 6)
    method.begin(samples(labels))
    assert method.constraint == "equal-recall"
    method.on_epoch(1, lambda given: predictions)
    assert method.multipliers.flatten().tolist() == pytest.approx([-0.5, 0.0, 0.5])


def test_groups_that_are_the_classes_are_not_degenerate():
    """Within its class a group's recall is the class's: the pivot must be the mean over classes."""
    labels, predictions = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 0, 1, 0, 0, 1])
    method = LabelBias(BiasOnly(), 6)
    method.begin(samples(labels, labels))
    method.on_epoch(1, lambda given: predictions)
    table = method.multipliers
    assert [float(table[c, c + 1]) for c in range(3)] == pytest.approx([-0.5, 0.0, 0.5])


def test_equal_recall_between_groups():
    """Class 0: recall 1 in group 0, 0 in group 1, 1/2 over both."""
    found = violation("equal-recall", torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]), (2, 3))
    assert found[0].tolist() == [0.0, -0.5, 0.5]


def test_unknown_groups_keep_their_weight():
    method = LabelBias(BiasOnly(), 4)
    train = samples([1, 1, 1, 0], [0, 1, -1, -1])
    method.begin(train)
    method.on_epoch(1, lambda given: torch.tensor([1, 0, 0, 1]))
    each = method.relative(train)
    assert each[2:].tolist() == [0.5, 0.5]
    assert float(each[1]) > 0.5 > float(each[0])


def test_a_group_without_positives_is_left_alone():
    found = violation("equal-opportunity", torch.tensor([1, 0]), torch.tensor([0, 1]), torch.tensor([0, 1]), (2, 3))
    assert not bool(found.any())


def test_labels_and_groups_that_training_lacks_are_left_out():
    found = violation(
        "equal-opportunity",
        torch.tensor([1, 1, 5, 1]),
        torch.tensor([0, 1, 0, 9]),
        torch.tensor([1, 0, 5, 1]),
        (2, 3),
    )
    assert found[1].tolist() == pytest.approx([0.0, 2 / 3 - 1, 2 / 3])


def test_the_exemplar_set_may_be_measured_instead():
    train, exemplar = samples([0, 1, 0, 1]), samples([0, 1])
    method = LabelBias(BiasOnly(), 4, measured_on="exemplar")
    method.begin(train, exemplar)
    method.on_epoch(1, lambda given: torch.tensor([0, 0]) if given is exemplar else given.labels)
    assert method.multipliers.flatten().tolist() == pytest.approx([-0.5, 0.5])
    with pytest.raises(MissingExemplar):
        LabelBias(BiasOnly(), 4, measured_on="exemplar").begin(train)


def test_multipliers_find_the_answer_that_is_known():
    """A model that predicts label 1 at its share of the weight: λ must give label 1 its true share, 0.3 and not 0.5."""
    train = samples([0] * 100 + [1] * 100)
    method = LabelBias(BiasOnly(), 200, constraint="rate", target={1: 0.3})
    method.begin(train)

    def predicts(given):
        weights = method.weights()
        share = float(weights[100:].sum() / weights.sum())
        return (torch.arange(200) < round(200 * share)).long()

    for epoch in range(1, 200):
        method.on_epoch(epoch, predicts)
    weights = method.weights()
    assert float(weights[100:].sum() / weights.sum()) == pytest.approx(0.3, abs=0.005)
    # σ(2λ) / (σ(2λ) + 1/2) = 0.3 gives σ(2λ) = 3/14
    assert float(method.multipliers[1]) == pytest.approx(0.5 * math.log(3 / 11), abs=0.02)


def test_equal_opportunity_is_reached_by_training():
    """Two groups, one logit each; group 1's labels were biased: half of its positives were turned to 0."""
    torch.manual_seed(0)
    groups = torch.arange(800) % 2
    true = torch.arange(800) // 2 % 2
    labels = torch.where((groups == 1) & (true == 1) & (torch.arange(800) % 8 >= 4), 0, true)
    x = torch.stack([true.double() * 2 - 1 + torch.randn(800), groups.double(), torch.ones(800)], dim=1).double()
    train = Batch(x, labels, groups)
    gaps = []
    for method_options in ({"online": False}, {}):
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2).double()
        method = LabelBias(model, 800, constraint="equal-opportunity", rate=0.3, **method_options)
        method.begin(train)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for epoch in range(1, 61):
            for _ in range(5):
                method.step(train, None, optimizer)
            method.on_epoch(epoch, lambda given, model=model: model(given.inputs).argmax(dim=1))
        said = model(x).argmax(dim=1)
        rates = [float(said[(labels == 1) & (groups == g)].double().mean()) for g in (0, 1)]
        gaps.append(abs(rates[0] - rates[1]))
    assert gaps[0] > 0.25
    assert gaps[1] < 0.05


def test_fixed_multipliers_stay():
    method = LabelBias(BiasOnly(), 4, constraint="equal-recall", online=False, multipliers=[[0.3], [-0.3]])
    method.begin(samples([0, 1, 0, 1]))
    method.on_epoch(1, lambda given: torch.zeros(4, dtype=torch.int64))
    assert method.multipliers.flatten().tolist() == pytest.approx([0.3, -0.3])


def test_a_batch_without_groups_after_a_training_set_with_them():
    method = LabelBias(model := BiasOnly(), 4)
    train = samples([0, 1, 0, 1], [0, 0, 1, 1])
    method.begin(train)
    with pytest.raises(MissingGroups):
        method.step(samples([0, 1, 0, 1]), None, sgd(model))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"constraint": "equal"}, "choose 'equal-opportunity'"),
        ({"constraint": "rate"}, "go together"),
        ({"target": {1: 0.2}}, "go together"),
        ({"constraint": "rate", "target": {1: 1.2}}, "rates from 0 to 1"),
        ({"rate": 0.0}, "above 0"),
        ({"multipliers": [0.1, 0.2]}, "table"),
        ({"measured_on": "test"}, "'train' or 'exemplar'"),
    ],
)
def test_options_that_mean_nothing(options, words):
    with pytest.raises(BadInput, match=words):
        LabelBias(BiasOnly(), 4, **options)


def test_asking_too_early():
    with pytest.raises(NotBegun, match="begin"):
        LabelBias(BiasOnly(), 4).on_epoch(1, lambda given: given.labels)
    with pytest.raises(NotBegun, match="begin"):
        LabelBias(BiasOnly(), 4, through="sampling").sampling_weights()
    with pytest.raises(MissingGroups, match="equal-recall"):
        LabelBias(BiasOnly(), 4, constraint="equal-odds").begin(samples([0, 1, 0, 1]))
    with pytest.raises(BadInput, match="positive=3"):
        LabelBias(BiasOnly(), 2, constraint="equal-odds", positive=3).begin(samples([0, 1], [0, 1]))
    with pytest.raises(BadInput, match="columns"):
        LabelBias(BiasOnly(), 2, multipliers=[[0.0], [0.0]]).begin(samples([0, 1], [0, 1]))
