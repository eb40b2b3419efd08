"""Cells below the floor: what a refusal suggests helps, and what is done is told."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from fairweight.data import GroupOptions, LabelOptions, Options, Split, load
from fairweight.errors import OneGroup, SmallCell, UnknownName


def _table(cells: dict[tuple[str, str], int]) -> pd.DataFrame:
    """So many rows of each label and group."""
    rows = [cell for cell, count in cells.items() for _ in range(count)]
    frame = pd.DataFrame(rows, columns=["paid", "sex"])
    return frame.assign(age=np.random.default_rng(0).normal(size=len(frame)).round(3))


def _load(frame: pd.DataFrame, positive: str | None = None, **groups):
    options = Options(labels=LabelOptions(positive=positive), groups=GroupOptions(**groups))
    return load(frame, label="paid", group="sex", options=options)


PLAIN = {("no", "F"): 30, ("no", "M"): 30, ("yes", "F"): 30, ("yes", "M"): 30}


def test_a_row_of_a_third_label_is_dropped_and_the_groups_stay():
    frame = _table({**PLAIN, ("odd", "F"): 1})
    with pytest.raises(SmallCell, match=r"set groups.below to drop or keep, or give more rows"):
        _load(frame)
    data = _load(frame, below="drop")
    assert data.label_names == ("no", "yes")
    assert data.group_names == ("F", "M")
    assert sum(map(len, data.rows.values())) == 120
    assert any("1 row was dropped for the label 'odd'" in note for note in data.warnings)
    assert any("'yes' is the positive one" in note for note in data.notes)
    assert 120 not in {int(row) for rows in data.rows.values() for row in rows}  # where the third label stands


def test_rows_of_a_third_label_are_counted_in_every_part(tmp_path):
    frame = _table({**PLAIN, ("odd", "F"): 2, ("odd", "M"): 3})
    assert any("5 rows were dropped for the label 'odd'" in note for note in _load(frame, below="drop").notes)


@pytest.mark.parametrize("odd", [{("odd", "F"): 9}, {("odd", "F"): 9, ("odd", "M"): 1}])
def test_a_label_that_one_group_alone_has_goes_before_the_last_two_groups_do(odd):
    data = _load(_table({**PLAIN, **odd}), below="drop")
    assert (data.label_names, data.group_names) == (("no", "yes"), ("F", "M"))


def test_a_group_that_lacks_a_label_goes_where_two_others_have_it():
    third = {("no", "X"): 9, ("yes", "X"): 9, ("odd", "F"): 9, ("odd", "M"): 9}
    data = _load(_table({**PLAIN, **third}), below="drop")
    assert (data.label_names, data.group_names) == (("no", "odd", "yes"), ("F", "M"))


def test_the_positive_label_may_be_named_where_a_third_one_is_dropped():
    frame = _table({**PLAIN, ("odd", "F"): 1})
    assert _load(frame, positive="no", below="drop").label_names == ("yes", "no")
    with pytest.raises(UnknownName, match="must be one of two"):
        _load(frame, positive="no", below="keep")


def test_without_groups_drop_is_suggested_only_where_two_labels_are_left():
    frame = _table({("no", "F"): 40, ("yes", "F"): 2})
    with pytest.raises(SmallCell, match=r"set groups.below to keep, lower groups.floor to 2, or"):
        load(frame, label="paid")
    with pytest.raises(SmallCell, match=r"set groups.below to drop or keep, lower groups.floor to 2, or"):
        load(_table({("no", "F"): 40, ("yes", "F"): 40, ("odd", "F"): 2}), label="paid")


@pytest.mark.parametrize("seed", range(25))
def test_what_a_refusal_suggests_helps_and_what_it_does_not_would_not(seed):
    draw = np.random.default_rng(seed)
    labels, groups = ["a", "b", "c"][: draw.integers(2, 4)], ["F", "M", "X"][: draw.integers(2, 4)]
    cells = {(label, group): int(draw.choice([0, 2, 6, 30])) for label in labels for group in groups}
    cells |= {(labels[0], group): 30 for group in groups} | {(label, groups[0]): 30 for label in labels[:2]}
    frame = _table(cells)
    try:
        _load(frame)
    except SmallCell as refusal:
        said = str(refusal)
    else:
        return
    for below in ("merge", "drop", "keep"):
        if re.search(rf"set groups\.below to [^:;]*\b{below}\b", said):
            _load(frame, below=below)
        else:
            with pytest.raises(OneGroup, match="no two groups are left"):
                _load(frame, below=below)
    if lower := re.search(r"lower groups\.floor to (\d+)", said):
        _load(frame, floor=int(lower[1]))
    else:
        with pytest.raises(SmallCell):
            _load(frame, floor=1)


def test_merging_ends_where_the_merged_groups_are_still_too_small():
    cells = {("no", "X"): 30, ("no", "Y"): 30, ("yes", "X"): 1, ("yes", "Y"): 2, ("no", "Z"): 90, ("yes", "Z"): 90}
    data = _load(_table({**PLAIN, **cells}), below="merge")
    assert data.group_names == ("M", "Z", "other")  # X and Y, and F, the smallest of the others


def test_merging_ends_where_there_is_nothing_to_merge_with(tmp_path):
    test = _table({("no", "F"): 9, ("yes", "F"): 9, ("no", "M"): 9, ("yes", "M"): 9})
    test.to_csv(tmp_path / "test.csv", index=False)
    train = _table({("no", "F"): 30, ("yes", "F"): 2})
    options = Options(groups=GroupOptions(below="merge"), split=Split(test=str(tmp_path / "test.csv")))
    with pytest.raises(OneGroup, match="no two groups are left"):
        load(train, label="paid", group="sex", options=options)
