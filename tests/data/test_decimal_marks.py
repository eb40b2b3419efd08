"""European numbers: read where the file tells, or the user does, and asked for where they may be two things."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch

from fairweight.data import Options, TableOptions, load, preprocessing_from
from fairweight.data.table.values import TrainColumn, numbers, settle_ways
from fairweight.errors import BadInput

N = 200
DRAW = np.random.default_rng(0)
PAY = (DRAW.integers(0, 9_000_000, N) / 100).round(2)
COUNT = DRAW.integers(100, 2000, N)
RATE = (DRAW.integers(0, 999, N) / 10).round(1)


def european(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({**columns, "sex": ["F", "M"] * (N // 2), "paid": ["no", "no", "yes", "yes"] * (N // 4)})


PLAIN = table(pay=PAY, count=COUNT, rate=RATE)
EUROPEAN = table(
    pay=[european(value) for value in PAY],
    count=[european(value, 0) for value in COUNT],
    rate=[european(value, 1) for value in RATE],
)


def settled(options: TableOptions | None = None, **columns: list[str]) -> dict[str, TrainColumn]:
    options = options or TableOptions()
    seen = {
        name: TrainColumn(pd.Series(texts, dtype=object), name in options.numeric) for name, texts in columns.items()
    }
    settle_ways(seen, options, ())
    return seen


def test_the_model_sees_the_inputs_of_plain_numbers_in_training_and_in_prediction(tmp_path):
    EUROPEAN.to_csv(tmp_path / "eu.csv", index=False, sep=";")
    expected = load(PLAIN, label="paid", group="sex")
    ways = ({}, {"decimal": ","}, {"decimal": ",", "thousands": "."}, {"thousands": "."})
    for given in (*({"delimiter": ";", **way} for way in ways), {}):
        options = Options(table=TableOptions(**given))
        found = load(tmp_path / "eu.csv", label="paid", group="sex", options=options)
        torch.testing.assert_close(found.train.inputs, expected.train.inputs)
        again = preprocessing_from(json.loads(json.dumps(found.preprocessing.to_dict())))
        new = again.read(tmp_path / "eu.csv")
        torch.testing.assert_close(new.inputs, expected.preprocessing.read(PLAIN).inputs)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1.169,63", "426,5", "3"], [1169.63, 426.5, 3]),
        (["1.169,63 €", "-5,00 €", "1.000.000,01 €"], [1169.63, -5, 1000000.01]),
        (["1.234.567", "1.169", "426"], [1234567, 1169, 426]),
        (["12,5%", "1.012,5%"], [12.5, 1012.5]),
    ],
)
def test_a_column_that_tells_by_itself(texts, expected):
    seen = settled(a=texts)["a"]
    kind, form = seen.kind
    assert kind == "number"
    np.testing.assert_array_equal(seen.numbers, expected)
    np.testing.assert_array_equal(numbers(pd.Series(texts[::-1], dtype=object), form), expected[::-1])


def test_another_column_tells_what_a_dot_and_a_comma_are():
    seen = settled(a=["1.169", "426", "2.000"], b=["12,5", "3,25", "1"], c=["1,234", "2,500", "7,125"])
    np.testing.assert_array_equal(seen["a"].numbers, [1169, 426, 2000])
    np.testing.assert_array_equal(seen["c"].numbers, [1.234, 2.5, 7.125])
    seen = settled(a=["1.169", "426", "2.000"], b=["12.5", "3.25", "1"], c=["1,234", "2,500", "7,125"])
    np.testing.assert_array_equal(seen["a"].numbers, [1.169, 426, 2])
    np.testing.assert_array_equal(seen["c"].numbers, [1234, 2500, 7125])


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, {"a": ["1.169", "426"], "b": ["12,5", "1"], "c": ["12.5", "1"]}),
        ({}, {"a": ["1,169", "426"], "b": ["12,5", "1"], "c": ["12.5", "1"]}),
        ({"delimiter": ";"}, {"a": ["1.169", "426"], "b": ["x", "y"]}),
        ({"delimiter": ";"}, {"a": ["1,169", "426"], "b": ["x", "y"]}),
    ],
)
def test_what_may_be_two_things_is_asked_for(options, columns):
    with pytest.raises(BadInput, match=r"'a' holds '1.169', which may be .*; say .* table\.decimal"):
        settled(TableOptions(**options), **columns)
    for decimal, value in ((",", 1169), (".", 1.169)) if "1.169" in columns["a"] else ((",", 1.169), (".", 1169)):
        seen = settled(TableOptions(**options, decimal=decimal), **columns)["a"]
        np.testing.assert_array_equal(seen.numbers, [value, 426])


def test_a_file_whose_header_shows_semicolons_is_asked_about_too(tmp_path):
    table(a=["1.169", "426"] * (N // 2)).to_csv(tmp_path / "eu.csv", index=False, sep=";")
    with pytest.raises(BadInput, match=r"'a' holds '1.169', which may be .*; say .* table\.decimal"):
        load(tmp_path / "eu.csv", label="paid", group="sex")


def test_a_semicolon_file_with_plain_fractions_is_not_asked_about():
    seen = settled(TableOptions(delimiter=";"), a=["0.123", "1.234"], b=["1.169", "426"])
    np.testing.assert_array_equal(seen["b"].numbers, [1.169, 426])


def test_an_exponent_tells_that_a_point_is_no_mark_of_thousands():
    seen = settled(TableOptions(delimiter=";"), a=["6.854e+02", "1.169E3"], b=["12,5", "3,25"], c=["12.5", "1"])
    np.testing.assert_array_equal(seen["a"].numbers, [685.4, 1169])


def test_a_column_that_shows_another_mark_than_was_named_keeps_its_own():
    seen = settled(TableOptions(decimal=","), a=["12.5", "1,234.75"], b=["1.169", "426"])
    np.testing.assert_array_equal(seen["a"].numbers, [12.5, 1234.75])
    np.testing.assert_array_equal(seen["b"].numbers, [1169, 426])


@pytest.mark.parametrize(
    "cell", [" " * 50_000 + "x", "1" + " " * 50_000 + "x", "(" * 50_000, "1." * 25_000, "1'" * 25_000]
)
def test_a_long_cell_that_is_no_number_is_refused_at_once(cell):
    started = time.process_time()
    assert settled(a=[cell, "$5", "12 %"])["a"].kind[0] == "category"
    assert time.process_time() - started < 2


def test_dates_addresses_and_versions_are_no_evidence():
    seen = settled(a=["31.12.2020", "01.02.2021"], b=["10.0.0.1", "192.168.1.1"], c=["1.169", "426"], d=["x, y", "z"])
    assert seen["a"].kind == ("date", "%d.%m.%Y")
    np.testing.assert_array_equal(seen["c"].numbers, [1.169, 426])


@pytest.mark.parametrize(
    ("thousands", "decimal", "texts"),
    [(" ", ",", ["1 169,63", "426,5"]), ("'", ".", ["1'169.63", "426.5"]), (" ", ",", ["1\u202f169,63", "426,5"])],
)
def test_marks_that_were_named(thousands, decimal, texts):
    seen = settled(TableOptions(decimal=decimal, thousands=thousands), a=texts)["a"]
    assert seen.kind[0] == "number"
    np.testing.assert_array_equal(seen.numbers, [1169.63, 426.5])
    found = numbers(pd.Series(["1.1.1", "x", None, "5"], dtype=object), seen.number_form)
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 5])


def test_a_named_numeric_column_may_be_european():
    seen = settled(TableOptions(numeric=("a",)), a=["1.169,63", "426,5", "unknown", "none at all"])["a"]
    np.testing.assert_array_equal(numbers(seen.values, seen.number_form), [1169.63, 426.5, np.nan, np.nan])


@pytest.mark.parametrize(
    "given", [{"decimal": ";"}, {"thousands": "x"}, {"decimal": ",", "thousands": ","}, {"thousands": "'"}]
)
def test_marks_that_cannot_be(given):
    with pytest.raises(BadInput, match="give"):
        TableOptions(**given)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1 169,63", "426,5", "12 000 000,25"], [1169.63, 426.5, 12000000.25]),
        (["1\u202f169,63", "426", "0,5"], [1169.63, 426.0, 0.5]),
        (["1\u00a0169", "426", "12\u00a0000"], [1169.0, 426.0, 12000.0]),
        (["1'169.63", "426.5", "2'000'000"], [1169.63, 426.5, 2000000.0]),
        (["-1'169", "426", "7"], [-1169.0, 426.0, 7.0]),
    ],
)
def test_blanks_and_apostrophes_part_thousands_without_being_told(cells, read):
    column = TrainColumn(pd.Series(cells * 20, dtype=object))
    settle_ways({"x": column}, TableOptions(), ())
    assert column.kind[0] == "number"
    assert column.numbers[:3].tolist() == read


@pytest.mark.parametrize(
    "cells",
    [
        ["030 123 456", "040 999 111", "089 777 222"],  # of telephones
        ["1 169,63", "1'169,63", "3"],  # two marks
        ["1 169,63", "1 169.63", "3"],  # two fractions
        ["12 345 67", "1 2", "a b"],
    ],
)
def test_what_no_number_is_written_like_stays_text(cells):
    column = TrainColumn(pd.Series(cells * 20, dtype=object))
    settle_ways({"x": column}, TableOptions(), ())
    assert column.kind[0] == "category"
