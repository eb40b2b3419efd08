"""Bad labels and groups: one sentence that names the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from fairweight import errors
from fairweight.data import GroupOptions, LabelOptions, Options, Split, load

Desk = Any  # see conftest.py
ROWS = 120


def _train(desk: Desk, source=None, label="paid", group: str | None = "sex", **options):
    return load(desk.csv() if source is None else source, label=label, group=group, options=Options(**options))


def _test_file(desk: Desk, frame: pd.DataFrame, **options):
    return _train(desk, split=Split(test=str(desk.csv(frame, "test.csv"))), **options)


def _with(desk: Desk, **columns) -> pd.DataFrame:
    return desk.frame().assign(**columns)


CASES: dict[str, tuple[Callable[[Desk], object], type[Exception], str]] = {
    # The label
    "no label was said": (lambda d: _train(d, label=None), errors.MissingColumn, "name the label column"),
    "no such label": (lambda d: _train(d, label="Payed"), errors.MissingColumn, "did you mean 'paid'"),
    "one class": (lambda d: _train(d, d.csv(_with(d, paid="yes"))), errors.BadLabel, "one class only, 'yes'"),
    "an empty label column": (lambda d: _train(d, d.csv(_with(d, paid=None))), errors.BadLabel, "empty in every row"),
    "labels missing in some rows": (
        lambda d: _train(d, d.csv(_with(d, paid=[None, "no", "yes"] * 40))),
        errors.BadLabel,
        "empty in 40 of 120 rows",
    ),
    "5,000 classes": (
        lambda d: load(pd.DataFrame({"x": range(6000), "y": [i % 5000 for i in range(6000)]}), label="y"),
        errors.BadLabel,
        r"5,000 distinct values and is probably a number.*'y>=2500'",
    ),
    "a label with fractions": (lambda d: _train(d, label="hours"), errors.BadLabel, "probably a number, not a class"),
    "a label of free text": (
        lambda d: _train(d, d.csv(_with(d, paid=[f"text {i}" for i in range(ROWS)]))),
        errors.BadLabel,
        "id or free text",
    ),
    "a class with one row": (
        lambda d: _train(d, d.csv(_with(d, paid=["rare", *["no", "yes"] * 59, "no"])), group=None),
        errors.SmallCell,
        "1 with 'rare'",
    ),
    "a positive label that is not there": (
        lambda d: _train(d, labels=LabelOptions(positive="maybe")),
        errors.UnknownName,
        "'maybe' must be one of two",
    ),
    "a threshold on words": (lambda d: _train(d, label="job>=3"), errors.BadInput, "compares numbers"),
    "a threshold on many words, of which the first is named": (
        lambda d: _train(d, d.csv(_with(d, job=[f"job {row}" for row in range(ROWS)])), label="job>=3"),
        errors.BadInput,
        "holds 'job 0'",
    ),
    "a test label that train lacks": (
        lambda d: _test_file(d, _with(d, paid="later")),
        errors.BadLabel,
        "'later', which no row of train has",
    ),
    "test rows without labels": (
        lambda d: _test_file(d, _with(d, paid=None)),
        errors.BadInput,
        "test part has no rows",
    ),
    "a test file without the label": (
        lambda d: _test_file(d, d.frame().drop(columns="paid")),
        errors.MissingColumn,
        "no label column 'paid' in the test",
    ),
    # The groups
    "no such group": (lambda d: _train(d, group="gender"), errors.MissingColumn, "no group column 'gender'"),
    "a group named twice": (lambda d: _train(d, group="sex,sex"), errors.MissingColumn, "named twice"),
    "the label as group": (lambda d: _train(d, group="paid"), errors.BadInput, "leave the group out"),
    "one group": (lambda d: _train(d, d.csv(_with(d, sex="F"))), errors.OneGroup, "one group only, 'F'"),
    "a group with one member": (
        lambda d: _train(d, d.csv(_with(d, sex=["X", *["F", "M"] * 59, "F"]))),
        errors.SmallCell,
        "in 'X'.*merge, drop or keep",
    ),
    "merging leaves one group": (
        lambda d: _train(d, d.csv(_with(d, sex=["X", *["F"] * 119])), groups=GroupOptions(below="merge")),
        errors.OneGroup,
        "no two groups are left",
    ),
    "a numeric group": (lambda d: _train(d, group="hours"), errors.BadInput, r"too many groups.*'hours>="),
    "an id as group": (
        lambda d: load(
            pd.DataFrame({"x": range(2400), "y": [0, 1] * 1200, "g": [f"p{i // 2}" for i in range(2400)]}),
            label="y",
            group="g",
        ),
        errors.BadInput,
        "probably an id",
    ),
    "no group in any row": (lambda d: _train(d, d.csv(_with(d, sex=None))), errors.MissingGroups, "no row has a 'sex'"),
    "no group in test rows": (lambda d: _test_file(d, _with(d, sex=None)), errors.MissingGroups, "no row of test"),
    "missing groups refused": (
        lambda d: _train(d, d.csv(_with(d, sex=[None, "F", "M"] * 40)), groups=GroupOptions(missing="refuse")),
        errors.MissingGroups,
        "40 rows of train have no 'sex'",
    ),
    "a chosen group that is not there": (
        lambda d: _train(d, groups=GroupOptions(only=("F", "Z"))),
        errors.UnknownName,
        "no group 'Z'",
    ),
    "a floor of nothing": (lambda d: _train(d, groups=GroupOptions(floor=0)), errors.BadInput, "at least 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_half_written(case, refused):
    refused(*CASES[case])
