"""Bad options, inputs and parts: one sentence that names the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from fairweight import errors
from fairweight.data import Exemplar, GroupOptions, ImageOptions, Options, Split, TableOptions, load

Desk = Any  # see conftest.py
ROWS = 120


def _train(desk: Desk, source=None, label="paid", group: str | None = "sex", **options):
    return load(desk.csv() if source is None else source, label=label, group=group, options=Options(**options))


def _test_file(desk: Desk, frame: pd.DataFrame, **options):
    return _train(desk, split=Split(test=str(desk.csv(frame, "test.csv"))), **options)


def _with(desk: Desk, **columns) -> pd.DataFrame:
    return desk.frame().assign(**columns)


CASES: dict[str, tuple[Callable[[Desk], object], type[Exception], str]] = {
    # Inputs and options
    "a test file without an input": (
        lambda d: _test_file(d, d.frame().drop(columns="age")),
        errors.MissingColumn,
        "lack the column 'age'",
    ),
    "an unknown column named numeric": (
        lambda d: _train(d, table=TableOptions(numeric=("agee",))),
        errors.MissingColumn,
        "did you mean 'age'",
    ),
    "numeric and categorical": (
        lambda d: _train(d, table=TableOptions(numeric=("age",), categorical=("age",))),
        errors.BadInput,
        "both numeric",
    ),
    "words named numeric": (lambda d: _train(d, table=TableOptions(numeric=("job",))), errors.BadInput, "is a number"),
    "nothing left to learn from": (
        lambda d: _train(d, table=TableOptions(drop=("age", "hours", "job"))),
        errors.BadInput,
        "no column is left",
    ),
    "room for no category": (lambda d: _train(d, table=TableOptions(max_categories=0)), errors.BadInput, "at least 1"),
    "a limit of nothing": (lambda d: _train(d, limit=0), errors.BadInput, "limit is 0"),
    "a choice that there is not": (
        lambda d: _train(d, groups=GroupOptions(below="squash")),
        errors.BadInput,
        "groups.below is 'squash'; choose from: refuse, merge, drop, keep",
    ),
    "two channels": (lambda d: ImageOptions(channels=2), errors.BadInput, "choose from: 1, 3"),
    "corrupting the test rows": (lambda d: Options(corrupt_parts=("train", "test")), errors.BadInput, "corrupt_parts"),
    # Parts
    "a share above 1": (lambda d: _train(d, split=Split(test=1.5)), errors.BadInput, "from 0 to below 1"),
    "shares that leave no train": (lambda d: _train(d, split=Split(0.6, 0.5)), errors.BadInput, "no rows for training"),
    "no such column of parts": (lambda d: _train(d, split=Split(column="part")), errors.MissingColumn, "to split by"),
    "a part of another name": (lambda d: _train(d, split=Split(column="job")), errors.BadInput, "must say train"),
    "a column of parts without train": (
        lambda d: _train(d, d.csv(_with(d, part="test")), split=Split(column="part")),
        errors.BadInput,
        "no row train",
    ),
    "test rows given twice": (
        lambda d: _train(
            d, d.csv(_with(d, part=["train", "test"] * 60)), split=Split(test=str(d.csv(name="2.csv")), column="part")
        ),
        errors.BadInput,
        "given twice",
    ),
    "no such test file": (lambda d: _train(d, split=Split(test="no.csv")), errors.MissingData, "no file 'no.csv'"),
    "no such exemplar file": (lambda d: _train(d, exemplar=Exemplar("no.csv")), errors.MissingData, "no file 'no.csv'"),
    "exemplars from a validation part that is not there": (
        lambda d: _train(d, split=Split(validation=0.0), exemplar=Exemplar("validation")),
        errors.BadInput,
        "no rows",
    ),
    "exemplars of no size": (
        lambda d: _train(d, exemplar=Exemplar(size=0)),
        errors.BadInput,
        "exemplar.size is 0; give at least 1",
    ),
    "exemplars per something else": (
        lambda d: _train(d, exemplar=Exemplar(per="row")),
        errors.BadInput,
        r"exemplar\.per is 'row'; choose from: cell, class",
    ),
    "more exemplars than rows": (lambda d: _train(d, exemplar=Exemplar(size=999)), errors.EmptyCell, "exemplar.size"),
    "test images for a table": (
        lambda d: _train(d, split=Split(test=str(d.pictures()))),
        errors.BadInput,
        "of another kind",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_half_written(case, refused):
    refused(*CASES[case])
