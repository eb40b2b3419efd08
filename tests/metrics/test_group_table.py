"""What each number means, and what happens where there is nothing to count."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import fairweight.metrics as fm
from fairweight.errors import BadInput, UnknownName

SCALARS = (
    "accuracy",
    "balanced_accuracy",
    "worst_group_accuracy",
    "tprd",
    "max_fnr",
    "fpr_gap",
    "equalised_odds_gap",
    "selection_rate_gap",
)


def test_binary_by_hand():
    labels = [1, 1, 1, 1, 0, 0, 1, 1, 0, 0]
    predictions = [1, 1, 1, 0, 0, 1, 1, 0, 0, 0]
    groups = list("aaaaaabbbb")
    table = fm.group_table(labels, predictions, groups)
    assert table.groups == ("a", "b")
    assert table.by_group("tpr") == {"a": 0.75, "b": 0.5}
    assert table.tprd == 0.25
    assert table.max_fnr == 0.5
    assert table.accuracy == 0.7
    assert table.fpr_gap == 0.5
    assert table.equalised_odds_gap == 0.5
    assert table.selection_rate_gap == pytest.approx(4 / 6 - 1 / 4)
    assert table.ratio("tpr") == pytest.approx(2 / 3)
    assert table.worst_group("tpr") == table.worst_group("fnr") == "b"
    assert table.worst_group("fpr") == "a"
    assert table.estimate("tpr", group="a").n == 4
    assert table.estimate("fpr", group="a").n == 2
    assert table.estimate("tprd").n == 6
    assert table.estimate("accuracy").n == 10
    for name in SCALARS:
        assert type(getattr(table, name)) is float
        assert getattr(table, name) == table.value(name) == table.estimate(name).value


def test_positive_is_one_or_the_larger_of_two_or_what_the_caller_says():
    predictions = ["<=50K", ">50K", ">50K"]
    labels = [">50K", ">50K", "<=50K"]
    groups = [0, 1, 1]
    assert fm.group_table(labels, predictions, groups).targets == (">50K",)
    assert fm.group_table(labels, predictions, groups, positive="<=50K").by_group("tpr")[1] == 0.0
    assert fm.group_table([1, 2], [1, 2], groups[:2]).targets == (1,)
    assert fm.group_table([-1, 1], [-1, 1], groups[:2]).targets == (1,)
    assert fm.group_table([3, 5], [3, 5], groups[:2]).targets == (5,)
    assert fm.group_table([False, True], [True, True], groups[:2]).targets == (True,)
    # one label of many against the others
    table = fm.group_table([0, 1, 2, 2], [0, 2, 2, 1], [0, 0, 0, 1], positive=2)
    assert table.by_group("tpr") == {0: 1.0, 1: 0.0}
    assert table.by_group("fpr")[0] == 0.5
    assert table.accuracy == 0.5


def test_one_label_alone_keeps_its_counterpart_in_mind():
    nobody = fm.group_table([0, 0], [0, 0], ["a", "b"])
    assert nobody.targets == (1,)
    assert math.isnan(nobody.tprd)
    assert math.isnan(nobody.max_fnr)
    assert nobody.by_group("fpr") == {"a": 0.0, "b": 0.0}
    assert nobody.fpr_gap == 0.0
    assert math.isnan(nobody.equalised_odds_gap)  # half of the odds looks fair
    assert fm.group_table([-1], [-1], ["a"]).labels == (-1, 1)
    assert fm.group_table([False, False], [False, False], ["a", "b"]).targets == (True,)
    everybody = fm.group_table([1, 1], [1, 1], ["a", "b"])
    assert everybody.tprd == 0.0
    assert math.isnan(everybody.fpr_gap)
    assert fm.group_table(["no"], ["no"], [0], positive="yes").labels == ("no", "yes")
    with pytest.raises(BadInput, match="'maybe' is not a label"):
        fm.group_table(["no", "yes"], ["no", "yes"], [0, 1], positive="maybe")


def test_what_cannot_be_estimated_is_nan_and_takes_no_part_in_gaps():
    labels = [1, 1, 1, 0, 0]
    predictions = [1, 1, 0, 0, 0]
    table = fm.group_table(labels, predictions, list("aabcc"))
    assert math.isnan(table.by_group("tpr")["c"])
    assert table.tprd == 1.0  # of a and b
    assert table.max_fnr == 1.0
    assert math.isnan(table.fpr_gap)  # one group alone has negatives
    assert math.isnan(table.equalised_odds_gap)
    estimate = table.estimate("tpr", group="c")
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.low)
    assert estimate.n == 0
    alone = fm.group_table([1, 0], [1, 1], ["a", "a"])
    for metric in ("tpr", "fpr", "accuracy", "selection_rate"):
        assert math.isnan(alone.gap(metric))
        assert math.isnan(alone.ratio(metric))
        assert math.isnan(alone.std(metric))
    assert alone.max_fnr == 0.0
    assert alone.worst("accuracy") == 0.5


def test_every_interval_holds_its_value_and_stays_within_its_range():
    rng = np.random.default_rng(5)
    cases = [
        (rng.integers(0, 2, 40), rng.integers(0, 2, 40), rng.integers(0, 4, 40)),
        (rng.integers(0, 5, 60), rng.integers(0, 5, 60), rng.integers(0, 3, 60)),
        (rng.integers(0, 5, 60), rng.integers(0, 5, 60), None),
        (np.ones(9, dtype=int), np.ones(9, dtype=int), np.arange(9) % 3),
        (np.array([0, 1]), np.array([1, 0]), np.array([0, 1])),
    ]
    names = [*SCALARS, "tpr_std", "tpr_worst_tenth", "accuracy_gap", "selection_rate_ratio", "fpr_worst", "fpr", "tpr"]
    for labels, predictions, groups in cases:
        table = fm.group_table(labels, predictions, groups, intervals=fm.Intervals(draws=200))
        for name in names:
            value, low, high, _ = table.estimate(name)
            assert math.isnan(value) == math.isnan(low) == math.isnan(high), name
            if not math.isnan(value):
                assert -1e-12 <= low <= value + 1e-12, name
                assert value - 1e-12 <= high <= 1.0 + 1e-12, name
        for metric in table.metrics:
            for group, value in table.by_group(metric).items():
                row = table.estimate(metric, group=group)
                assert math.isnan(value) or 0.0 <= row.low <= value <= row.high <= 1.0


def test_worst_cell_is_named_by_label_and_group():
    table = fm.group_table([0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 0, 2], list("aaabbb"))
    assert table.worst_group("tpr") == (1, "b")
    assert table.worst_group("accuracy") == "b"
    assert table.estimate("tpr", group="b", label=1).value == 0.0
    assert fm.group_table([0, 1, 2], [0, 2, 2]).worst_group("tpr") == 1
    assert fm.group_table([0], [0], ["a"]).worst_group("tpr") is None


def test_worst_tenth_rounds_up():
    classes = np.repeat(np.arange(20), 10)
    predictions = classes.copy()
    predictions[:5] = 1  # class 0: half right
    predictions[10:13] = 2  # class 1: 0.7
    table = fm.group_table(classes, predictions)
    assert table.worst_tenth() == pytest.approx((0.5 + 0.7) / 2)
    assert table.worst_tenth("fnr") == pytest.approx((0.5 + 0.3) / 2)
    rates = np.array(list(table.by_group("tpr").values()))
    assert table.std() == pytest.approx(rates.std())


def test_dictionary_is_strict_json_and_frames_have_every_column():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    groups = {"sex": rng.choice(["F", "M"], 50), "age": rng.integers(0, 2, 50)}
    table = fm.group_table(labels, predictions, groups, intervals=fm.Intervals(draws=50))
    content = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert content["tprd"] == table.tprd
    assert content["max_fnr"] == table.max_fnr
    assert content["accuracy"] == table.accuracy
    assert content["intervals"]["tprd"] == [table.estimate("tprd").low, table.estimate("tprd").high]
    assert content["groups"][0]["attributes"] == {"sex": "F", "age": 0}
    assert len(content["cells"]) == 12
    assert content["groups"][0]["selection_rate"] is None
    frame = table.to_pandas()
    columns = [f"{m}{e}" for m in ("accuracy", "tpr", "fnr", "fpr", "selection_rate") for e in ("", "_low", "_high")]
    assert frame.columns.tolist() == ["n", "n_positive", *columns]
    cells = table.to_pandas("cell")
    assert cells.index.names == ["label", "sex", "age"]
    assert cells.loc[(2, "M", 1), "tpr"] == pytest.approx(table.by_cell("tpr")[2, ("M", 1)])
    assert cells["n"].sum() == 50
    binary = fm.group_table([0, 1, 1], [0, 1, 0], ["a", "a", "b"])
    assert binary.to_pandas()["n_positive"].tolist() == [1, 1]
    assert "cells" not in binary.to_dict()
    assert fm.group_table([0, 1, 1], [0, 1, 0]).to_pandas("cell").index.tolist() == [0, 1]


def test_unknown_names_are_refused_with_the_known_ones():
    table = fm.group_table([0, 1], [0, 1], ["a", "b"])
    with pytest.raises(UnknownName, match="tprd"):
        table.value("tpdr")
    with pytest.raises(UnknownName, match="selection_rate"):
        table.gap("f1")
    with pytest.raises(UnknownName, match="fnr"):
        table.by_cell("accuracy")
    with pytest.raises(BadInput, match="'z' is not a group"):
        table.estimate("tpr", group="z")
    with pytest.raises(BadInput, match="name the group"):
        table.estimate("tpr", label=1)
    with pytest.raises(BadInput, match="leave label out"):
        table.estimate("accuracy", group="a", label=1)
    with pytest.raises(BadInput, match="another name"):
        fm.group_table([0, 1], [0, 1], ["a", "b"], metrics={"tpr_gap": lambda y, p: 0.0})
    for taken in ("n", "groups", "positive"):  # its place in to_dict and to_pandas is another's
        with pytest.raises(BadInput, match="another name"):
            fm.group_table([0, 1], [0, 1], ["a", "b"], metrics={taken: lambda y, p: 0.5})
    with pytest.raises(BadInput, match="returned list"):
        fm.group_table([0, 1], [0, 1], ["a", "b"], metrics={"mine": lambda y, p: [1, 2]})
    with pytest.raises(BadInput, match="'group' or 'cell'"):
        table.to_pandas("rows")


def test_tables_say_what_they_are():
    table = fm.group_table([0, 1, 1, 0], [0, 1, 0, 0], ["a", "a", "b", "b"])
    assert repr(table) == "GroupTable(n=4, groups=2, accuracy=0.7500, tprd=1.0000, max_fnr=1.0000)"


def test_the_numbers_of_groups_are_computed_once_for_all_of_them():
    table = fm.group_table([0, 1, 1], [0, 1, 0], ["a", "b", "b"])
    assert table.estimate("tpr", group="b") is table.estimate("tpr", group="b")
