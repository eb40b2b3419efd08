"""Each criterion against fairlearn and against counts on paper."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn import metrics as referee

from fairweight.errors import BadInput, UnknownName
from fairweight.metrics import group_table
from fairweight.metrics.criterion import CRITERIA, confusion, criterion, default_criterion


@pytest.fixture
def samples():
    draw = np.random.default_rng(0)
    group, label = draw.integers(3, size=900), draw.integers(2, size=900)
    said = (draw.random(900) < 0.2 + 0.5 * label + 0.1 * group).astype(int)
    return label, said, group


def by_group(function, samples):
    label, said, group = samples
    return np.array([function(label[group == g], said[group == g]) for g in range(3)])


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("equal-opportunity", referee.true_positive_rate),
        ("demographic-parity", lambda y, p: referee.selection_rate(y, p)),
        ("predictive-parity", lambda y, p: y[p == 1].mean()),
        ("accuracy-parity", lambda y, p: (y == p).mean()),
    ],
)
def test_a_gap_is_largest_minus_smallest(name, function, samples):
    label, said, group = samples
    values = by_group(function, samples)
    table = group_table(label, said, group)
    assert criterion(name).gap(table) == pytest.approx(np.ptp(values))
    found = criterion(name).estimate(table)
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(np.ptp(values))


def test_odds_take_the_larger_gap_and_the_worst_group_its_error(samples):
    label, said, group = samples
    table = group_table(label, said, group)
    odds = referee.equalized_odds_difference(label, said, sensitive_features=group)
    assert criterion("equalized-odds").gap(table) == pytest.approx(odds)
    worst = 1 - by_group(lambda y, p: (y == p).mean(), samples).min()
    assert criterion("worst-group").gap(table) == pytest.approx(worst)
    assert criterion("worst-group").estimate(table).value == pytest.approx(worst)


def test_recall_parity_compares_classes_where_no_groups_are_given():
    label, said = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 0, 2, 2])
    table = group_table(label, said)
    assert criterion("recall-parity").gap(table) == pytest.approx(0.5) == table.tprd


@pytest.mark.parametrize("groups", [None, [0, 1] * 12])
def test_recall_parity_has_the_interval_of_the_tprd_that_it_is(groups):
    table = group_table([0] * 8 + [1] * 8 + [2] * 8, [0] * 8 + [1] * 14 + [2] * 2, groups)
    found = criterion("recall-parity").estimate(table)
    assert found == table.estimate("tprd")
    assert found.value == pytest.approx(criterion("recall-parity").gap(table))
    assert found.low < found.high


def test_the_positive_label_is_the_tables():
    label, said, group = ["yes", "no", "yes", "no"], ["yes", "no", "no", "no"], [0, 0, 1, 1]
    table = group_table(label, said, group, positive="no")
    assert criterion("equal-opportunity").gap(table) == 0
    assert criterion("equal-opportunity").gap(group_table(label, said, group, positive="yes")) == 1


@pytest.mark.parametrize("name", CRITERIA)
def test_pressure_points_to_the_cells_whose_weight_closes_the_gap(name):
    fair = criterion(name)
    even = confusion(np.array([0, 1] * 8), np.array([0, 1] * 8), np.repeat([0, 1], 8), classes=2)
    np.testing.assert_allclose(fair.pressure(even), 0)
    uneven = np.array([[[50, 0], [30, 20]], [[50, 0], [0, 50]]])  # group 0 misses 30 of its 50 positives
    push = fair.pressure(uneven)
    if name != "predictive-parity":  # precision is 1 in both
        assert push[0, 1] > 0 > push[1, 1]
    else:
        np.testing.assert_allclose(push, 0)


@pytest.mark.parametrize("name", CRITERIA)
def test_one_class_alone_asks_for_nothing(name):
    assert criterion(name).pressure(np.array([[[5]], [[3]]])).tolist() == [[0.0], [0.0]]


def test_false_alarms_ask_for_more_weight_on_negatives():
    alarms = np.array([[[30, 20], [0, 50]], [[50, 0], [0, 50]]])
    for name in ("equalized-odds", "predictive-parity"):
        push = criterion(name).pressure(alarms)
        assert push[0, 0] > 0 > push[1, 0]


def test_defaults_and_refusals():
    assert default_criterion(2, groups=True).name == "equal-opportunity"
    assert default_criterion(2, groups=False).name == default_criterion(5, groups=True).name == "recall-parity"
    with pytest.raises(UnknownName):
        criterion("fairness")
    with pytest.raises(BadInput):
        criterion("demographic-parity").check(groups=False)
    for one in CRITERIA.values():
        assert one.sentence.endswith(".")
        assert one.wanted_by.startswith("whoever")


def test_the_worst_groups_error_is_not_called_a_gap():
    assert criterion("worst-group").measure == "worst-group error"
    assert criterion("equal-opportunity").measure == "equal-opportunity gap"


def test_a_rate_on_fewer_than_ten_samples_moves_no_weight_and_takes_no_part_in_a_gap_that_is_chosen_by():
    counts = np.array([[[90, 10], [20, 80]], [[90, 10], [40, 60]], [[30, 0], [9, 0]]])  # 9 positives, all missed
    fair = criterion("equal-opportunity")
    assert fair.few(counts) == [2]
    np.testing.assert_allclose(fair.pressure(counts)[2], 0)
    np.testing.assert_allclose(fair.pressure(counts)[:2], fair.pressure(counts[:2]))
    assert fair.gap_of(counts) == pytest.approx(0.8)
    assert fair.gap_of(counts, behind=counts) == pytest.approx(0.2)
    counts[2, 1, 0] = 10
    assert fair.few(counts) == []
    assert fair.gap_of(counts, behind=counts) == pytest.approx(0.8)
    views = fair.each(["sex"], [["f"], ["m"], ["m"]])  # the small one is part of a large one
    counts[2, 1, 0] = 9
    assert views.gap_of(counts, behind=counts) == views.gap_of(counts)
