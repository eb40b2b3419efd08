"""The outside referee for many classes: scikit-learn, on random problems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

import fairweight.metrics as fm


@st.composite
def problems(draw):
    n, classes, groups = draw(st.integers(1, 80)), draw(st.integers(2, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(0, classes, n), rng.integers(0, classes, n), rng.integers(0, groups, n)


def spread(values):
    known = [value for value in values if not math.isnan(value)]
    return max(known) - min(known) if len(known) > 1 else math.nan


@settings(max_examples=25, deadline=None)
@given(problems())
def test_class_as_group(problem):
    labels, predictions, _ = problem
    table = fm.group_table(labels, predictions)
    classes = sorted(set(labels.tolist()) | set(predictions.tolist()))
    assert list(table.groups) == classes
    matrix = confusion_matrix(labels, predictions, labels=[*classes, 99])[:-1, :-1]  # it warns of one label alone
    recall = recall_score(labels, predictions, labels=classes, average=None, zero_division=np.nan)
    n = matrix.sum()
    np.testing.assert_allclose(list(table.by_group("tpr").values()), recall)
    np.testing.assert_allclose(list(table.by_group("accuracy").values()), recall)
    for place, label in enumerate(classes):
        others = n - matrix[place].sum()
        wrong = matrix[:, place].sum() - matrix[place, place]
        fpr = table.by_group("fpr")[label]
        assert fpr == pytest.approx(wrong / others) if others else math.isnan(fpr)
        assert table.by_group("selection_rate")[label] == pytest.approx(matrix[:, place].sum() / n)
    assert table.accuracy == pytest.approx(accuracy_score(labels, predictions))
    assert table.balanced_accuracy == pytest.approx(float(np.nanmean(recall)))
    assert table.tprd == pytest.approx(spread(recall), nan_ok=True)
    assert table.max_fnr == pytest.approx(1.0 - np.nanmin(recall))
    assert table.worst("tpr") == pytest.approx(np.nanmin(recall))
    known = recall[~np.isnan(recall)]
    assert table.std() == pytest.approx(float(known.std()) if len(known) > 1 else math.nan, nan_ok=True)
    assert table.worst_tenth() == pytest.approx(np.sort(known)[: math.ceil(len(known) / 10)].mean())


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(problems())
def test_many_classes_with_an_attribute(problem):
    labels, predictions, groups = problem
    labels, predictions = labels + 2, predictions + 2  # no label 1: nothing is positive by itself
    if len(set(labels.tolist()) | set(predictions.tolist())) < 3:
        labels, predictions, groups = (
            np.append(a, b) for a, b in ((labels, [7, 8, 9]), (predictions, [7, 8, 9]), (groups, [0, 0, 0]))
        )
    table = fm.group_table(labels, predictions, groups)
    recalls = {
        (label, group): recall_score(
            labels[groups == group],
            predictions[groups == group],
            labels=[label],
            average=None,
            zero_division=np.nan,
        )[0]
        for label in table.labels
        for group in table.groups
    }
    ours = table.by_cell("tpr")
    assert list(ours) == list(recalls)
    np.testing.assert_allclose(list(ours.values()), list(recalls.values()))
    spreads = [spread([recalls[label, group] for group in table.groups]) for label in table.labels]
    known = [value for value in spreads if not math.isnan(value)]
    assert table.tprd == pytest.approx(max(known) if known else math.nan, nan_ok=True)
    assert table.max_fnr == pytest.approx(1.0 - np.nanmin(list(recalls.values())))
    for group in table.groups:
        member = groups == group
        assert table.by_group("accuracy")[group] == pytest.approx(accuracy_score(labels[member], predictions[member]))
        mean = np.nanmean([recalls[label, group] for label in table.labels])
        assert table.by_group("balanced_accuracy")[group] == pytest.approx(mean)
        assert table.by_group("tpr")[group] == pytest.approx(mean)


def test_fpr_and_selection_of_a_cell_are_of_that_label_against_the_others():
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2])
    predictions = np.array([0, 1, 1, 2, 2, 0, 0, 1, 2])
    groups = np.array(list("aaaaaabbb"))
    table = fm.group_table(labels, predictions, groups)
    for label in (0, 1, 2):
        member = groups == "a"
        others = member & (labels != label)
        assert table.by_cell("fpr")[label, "a"] == pytest.approx(np.mean(predictions[others] == label))
        assert table.by_cell("selection_rate")[label, "a"] == pytest.approx(np.mean(predictions[member] == label))
        assert table.by_cell("fpr")[label, "b"] == 0.0
    assert table.fpr_gap == pytest.approx(0.25)
    assert math.isnan(table.by_group("selection_rate")["a"])  # it would be one third whatever the model


def test_own_metrics_are_called_on_each_group_with_the_values_as_given():
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(3)
    labels, predictions = rng.choice(["bad", "good"], 300), rng.choice(["bad", "good"], 300)
    groups = rng.choice(["x", "y", "z"], 300)

    def f1(y, p):
        return f1_score(y, p, pos_label="good")

    table = fm.group_table(labels, predictions, groups, metrics={"f1": f1}, intervals=fm.Intervals(draws=60))
    expected = {group: f1(labels[groups == group], predictions[groups == group]) for group in "xyz"}
    assert table.by_group("f1") == pytest.approx(expected)
    assert table.value("f1") == pytest.approx(f1(labels, predictions))
    assert table.gap("f1") == pytest.approx(max(expected.values()) - min(expected.values()))
    assert table.worst("f1") == pytest.approx(min(expected.values()))
    assert table.worst_group("f1") == min(expected, key=expected.get)
    for name in ("f1", "f1_gap", "f1_worst", "f1_std"):
        estimate = table.estimate(name)
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.low < estimate.high
    row = table.estimate("f1", group="x")
    assert row.low < row.value < row.high
