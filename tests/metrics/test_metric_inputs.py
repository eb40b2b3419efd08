"""Tensors, arrays, lists, pandas columns; names; missing groups; and what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import fairweight.metrics as fm
from fairweight.errors import BadInput, MissingGroups

LABELS = [0, 1, 1, 0, 1, 1]
PREDICTIONS = [0, 1, 0, 1, 1, 0]
GROUPS = [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        pd.Series,
        lambda v: np.array(v, dtype=np.float32),
        lambda v: np.array(v, dtype=object),
        lambda v: np.array(v)[:, None],
        lambda v: torch.tensor(v, dtype=torch.uint8),
        lambda v: torch.tensor(v, dtype=torch.bfloat16, requires_grad=True),
        lambda v: pd.Series(v, dtype="Int64"),
        lambda v: pd.Series(v, dtype="category", index=range(10, 16)),
        lambda v: pd.array(v, dtype="Int64"),
    ],
)
def test_every_kind_of_column_gives_the_same_table(kind):
    expected = fm.group_table(LABELS, PREDICTIONS, GROUPS).to_dict()
    assert fm.group_table(kind(LABELS), kind(PREDICTIONS), kind(GROUPS)).to_dict() == expected


def test_text_labels_and_groups():
    words = np.array(["no", "yes"])
    table = fm.group_table(list(words[LABELS]), pd.Series(words[PREDICTIONS]), pd.Series(list("FFFMMM"), name="sex"))
    assert table.by_group("tpr") == {"F": 0.5, "M": 0.5}
    assert table.attributes == ("sex",)
    assert table.to_pandas().index.name == "sex"


def test_bools_and_integers_are_one_kind_of_label():
    truth = [bool(label) for label in LABELS]
    assert fm.group_table(truth, PREDICTIONS, GROUPS).accuracy == fm.group_table(LABELS, PREDICTIONS, GROUPS).accuracy


def test_several_attributes_in_every_form_are_crossed_alike():
    second = ["x", "y", "x", "x", "y", "y"]
    by_mapping = fm.group_table(LABELS, PREDICTIONS, {"a": GROUPS, "b": second})
    by_frame = fm.group_table(LABELS, PREDICTIONS, pd.DataFrame({"a": GROUPS, "b": second}))
    assert by_mapping.to_dict() == by_frame.to_dict()
    assert by_mapping.groups == ((0, "x"), (0, "y"), (1, "x"), (1, "y"))
    codes = [int(value == "y") for value in second]
    for kind in (np.array, torch.tensor, list):
        table = fm.group_table(LABELS, PREDICTIONS, kind(list(zip(GROUPS, codes, strict=True))))
        assert table.groups == ((0, 0), (0, 1), (1, 0), (1, 1))
        assert list(table.by_group("accuracy").values()) == list(by_mapping.by_group("accuracy").values())
    one = fm.group_table(LABELS, PREDICTIONS, np.array(GROUPS)[:, None])
    assert one.groups == (0, 1)


def test_names_take_the_place_of_codes_and_keep_rows_that_do_not_occur():
    table = fm.group_table(LABELS, PREDICTIONS, GROUPS, label_names=["no", "yes"], group_names=["F", "M", "X"])
    assert table.groups == ("F", "M", "X")
    assert table.targets == ("yes",)
    assert np.isnan(table.by_group("accuracy")["X"])
    assert table.tprd == 0.0
    assert table.estimate("tpr", group="M") == table.estimate("tpr", group=1)
    by_value = fm.group_table(LABELS, PREDICTIONS, list("bbbaaa"), group_names={"b": "F", "a": "M"})
    assert by_value.groups == ("F", "M")
    ordered = fm.group_table(LABELS, PREDICTIONS, list("bbbaaa"), group_names=["b", "a"])
    assert ordered.groups == ("b", "a")
    crossed = fm.group_table(
        LABELS, PREDICTIONS, {"sex": GROUPS, "age": [0, 1, 0, 1, 0, 1]}, group_names={"sex": ["F", "M"]}
    )
    assert crossed.groups == (("F", 0), ("F", 1), ("M", 0), ("M", 1))
    single = fm.group_table(LABELS, PREDICTIONS, {"sex": GROUPS}, group_names={"sex": ["F", "M"]})
    assert single.groups == ("F", "M")
    classes = fm.group_table([0, 2], [0, 2], label_names=["cat", "dog", "eel"])
    assert classes.groups == ("cat", "dog", "eel")
    assert fm.group_table([0, 1], [0, 1], [0, 1], label_names=["a", "b", "c"]).has_cells
    assert fm.group_table(LABELS, PREDICTIONS, GROUPS, positive="no", label_names=["no", "yes"]).targets == ("no",)
    with pytest.raises(BadInput, match="label 2 has no name"):
        fm.group_table([0, 2], [0, 2], label_names=["a", "b"])
    with pytest.raises(BadInput, match="share one name"):
        fm.group_table(LABELS, PREDICTIONS, GROUPS, group_names=["F", "F"])
    with pytest.raises(BadInput, match="list of names"):
        fm.group_table(LABELS, PREDICTIONS, GROUPS, group_names="FM")
    with pytest.raises(BadInput, match="mapping from attribute"):
        fm.group_table(LABELS, PREDICTIONS, {"a": GROUPS, "b": GROUPS}, group_names=["F", "M"])


@pytest.mark.parametrize(
    "groups",
    [
        [0, 0, -1, 1, 1, 1],
        torch.tensor([0, 0, -1, 1, 1, 1]),
        [0, 0, None, 1, 1, 1],
        np.array([0, 0, np.nan, 1, 1, 1]),
        ["F", "F", None, "M", "M", "M"],
        ["F", "F", float("nan"), "M", "M", "M"],
        pd.Series(["F", "F", None, "M", "M", "M"]),
        pd.Series([0, 0, None, 1, 1, 1], dtype="Int64"),
        pd.Series(["F", "F", None, "M", "M", "M"], dtype="category"),
    ],
)
def test_missing_groups_are_refused_left_out_or_a_group(groups):
    with pytest.raises(MissingGroups, match="1 of 6 samples have no group; pass missing='ignore'"):
        fm.group_table(LABELS, PREDICTIONS, groups)
    ignored = fm.group_table(LABELS, PREDICTIONS, groups, missing="ignore")
    assert (ignored.n, ignored.n_missing, len(ignored.groups)) == (5, 1, 2)
    assert ignored.accuracy == 3 / 5
    grouped = fm.group_table(LABELS, PREDICTIONS, groups, missing="group")
    assert grouped.groups[-1] == "(missing)"
    assert grouped.by_group("tpr")["(missing)"] == 0.0
    assert (grouped.n, grouped.n_missing) == (6, 0)


def test_missing_in_crossed_attributes():
    groups = {"a": ["x", None, "y", "x", "y", "y"], "b": [0, 1, -1, 0, 1, 0]}
    ignored = fm.group_table(LABELS, PREDICTIONS, groups, missing="ignore")
    assert (ignored.n, ignored.n_missing) == (4, 2)
    grouped = fm.group_table(LABELS, PREDICTIONS, groups, missing="group")
    assert ("(missing)", 1) in grouped.groups
    assert ("y", "(missing)") in grouped.groups
    assert grouped.n == 6
    with pytest.raises(MissingGroups, match="every sample"):
        fm.group_table([0, 1], [0, 1], [None, -1], missing="ignore")
    with pytest.raises(BadInput, match="rename it"):
        fm.group_table([0, 1], [0, 1], ["(missing)", None], missing="group")


def test_a_caller_s_arrays_stay_as_they_are():
    arrays = [np.array(values) for values in (LABELS, PREDICTIONS, GROUPS)]
    copies = [array.copy() for array in arrays]
    str(fm.group_table(*arrays))
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0, 1], [0], [0, 1]), "2 labels but 1 predictions"),
        (([0, 1], [0, 1], [0]), r"groups \(group\) has 1 entries for 2 samples"),
        (([], [], []), "labels is empty"),
        (([0, 1], [[0.1, 0.9], [0.9, 0.1]], [0, 1]), r"take .argmax\(1\)"),
        (([0, 1], [0.2, 0.9], [0, 1]), "predictions holds fractions"),
        (([0, None], [0, 1], [0, 1]), "1 of 2 labels are missing"),
        (([0, 1], [0.0, float("nan")], [0, 1]), "1 of 2 predictions are missing"),
        ((["a", "b"], [0, 1], [0, 1]), "not of one type"),
        (([0, 1], [0, 1], ["a", 1]), "mixes types"),
        (([0, 1], [0, 1], [[0], [1, 2]]), "ragged"),
        (([0, 1], [0, 1], {}), "holds no attribute"),
        (([0, 1], [0, 1], {1: [0, 1], "1": [1, 0]}), "share one name"),
        (([0, 1], [0, 1], np.zeros((2, 0))), "holds no attribute"),
        (([0, 1], [0, 1], np.zeros((2, 2, 2))), "has shape"),
        (([0, 1], [0, 1], np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")), "convert it"),
        (([0, 1], [0, 1], 3), "has shape"),
        ((np.arange(200) % 2, np.arange(200) % 2, {"a": np.arange(200), "b": np.arange(200)}), "cross to 40000 groups"),
    ],
)
def test_bad_columns_are_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        fm.group_table(*arguments)


def test_bad_options_are_refused_in_a_sentence():
    with pytest.raises(BadInput, match="'error', 'ignore' or 'group'"):
        fm.group_table(LABELS, PREDICTIONS, GROUPS, missing="drop")
    with pytest.raises(BadInput, match="give groups"):
        fm.group_table(LABELS, PREDICTIONS, positive=1)
    for options in ({"level": 95}, {"level": 0.0}, {"draws": -1}, {"draws": 1.5}, {"seed": -1}):
        with pytest.raises(BadInput, match=next(iter(options))):
            fm.Intervals(**options)


def test_import_is_light():
    code = "import sys, fairweight.metrics as m; print([x for x in ('torch', 'pandas', 'scipy') if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
