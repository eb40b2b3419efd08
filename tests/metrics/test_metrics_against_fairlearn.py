"""The outside referee: fairlearn's MetricFrame, on random binary problems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairweight.metrics as fm

fairlearn = pytest.importorskip("fairlearn.metrics", reason="fairlearn is the referee here")


@st.composite
def binary_problems(draw):
    n = draw(st.integers(2, 60))  # fairlearn takes no less
    groups = draw(st.integers(1, 5))
    bits = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    return (
        np.array(draw(bits)),
        np.array(draw(bits)),
        np.array(draw(st.lists(st.integers(0, groups - 1), min_size=n, max_size=n))),
    )


def frame_of(labels, predictions, groups):
    return fairlearn.MetricFrame(
        metrics={
            "n": fairlearn.count,
            "accuracy": lambda y, p: float(np.mean(y == p)),
            "tpr": fairlearn.true_positive_rate,
            "fnr": fairlearn.false_negative_rate,
            "fpr": fairlearn.false_positive_rate,
            "selection_rate": fairlearn.selection_rate,
        },
        y_true=labels,
        y_pred=predictions,
        sensitive_features=groups,
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(binary_problems())
def test_rates_by_group_are_fairlearns_where_they_can_be_estimated(problem):
    labels, predictions, groups = problem
    table = fm.group_table(labels, predictions, groups)
    frame = frame_of(*problem)
    ours = table.to_pandas()
    assert ours.index.tolist() == frame.by_group.index.tolist()
    assert ours["n"].tolist() == frame.by_group["n"].tolist()
    for group in table.groups:
        member = groups == group
        for metric in ("accuracy", "tpr", "fnr", "fpr", "selection_rate"):
            counted = {"tpr": labels[member] == 1, "fnr": labels[member] == 1, "fpr": labels[member] == 0}
            if metric in counted and not counted[metric].any():  # where fairlearn says 0
                assert math.isnan(ours.loc[group, metric])
                assert math.isnan(ours.loc[group, f"{metric}_low"])
            else:
                assert ours.loc[group, metric] == pytest.approx(frame.by_group.loc[group, metric], abs=1e-12)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(binary_problems())
def test_gaps_and_ratios_are_fairlearns_where_every_group_can_be_estimated(problem):
    labels, predictions, groups = problem
    table = fm.group_table(labels, predictions, groups)
    cells = {(y, g) for y, g in zip(labels.tolist(), groups.tolist(), strict=True)}
    full = len(set(groups.tolist())) > 1 and all((y, g) in cells for y in (0, 1) for g in set(groups.tolist()))
    if len(set(groups.tolist())) < 2:
        assert math.isnan(table.selection_rate_gap)
        return
    frame = frame_of(*problem)
    assert table.selection_rate_gap == pytest.approx(
        fairlearn.demographic_parity_difference(labels, predictions, sensitive_features=groups), abs=1e-12
    )
    assert table.gap("accuracy") == pytest.approx(frame.difference()["accuracy"], abs=1e-12)
    assert table.worst_group_accuracy == pytest.approx(frame.group_min()["accuracy"], abs=1e-12)
    if predictions.any():
        assert table.ratio("selection_rate") == pytest.approx(frame.ratio()["selection_rate"], abs=1e-12)
    else:
        assert math.isnan(table.ratio("selection_rate"))
    if full:
        assert table.tprd == pytest.approx(frame.difference()["tpr"], abs=1e-12)
        assert table.fpr_gap == pytest.approx(frame.difference()["fpr"], abs=1e-12)
        assert table.max_fnr == pytest.approx(frame.group_max()["fnr"], abs=1e-12)
        assert table.equalised_odds_gap == pytest.approx(
            fairlearn.equalized_odds_difference(labels, predictions, sensitive_features=groups), abs=1e-12
        )


def test_crossed_attributes_are_fairlearns_rows_and_order():
    rng = np.random.default_rng(0)
    n = 500
    labels, predictions = rng.integers(0, 2, n), rng.integers(0, 2, n)
    attributes = {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n)}
    attributes["race"][attributes["sex"] == "M"] = "a"  # two crossings stay empty
    frame = frame_of(labels, predictions, attributes)
    ours = fm.group_table(labels, predictions, attributes).to_pandas()
    assert ours.index.names == ["sex", "race"]
    assert ours.index.tolist() == frame.by_group.index.tolist()
    np.testing.assert_allclose(ours["tpr"], frame.by_group["tpr"].astype(float), atol=1e-12)
    assert ours.loc[("M", "b"), "n"] == 0
    assert math.isnan(ours.loc[("M", "b"), "accuracy"])
