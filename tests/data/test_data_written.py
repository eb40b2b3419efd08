"""Numbers as people write them are read as numbers, in training and in prediction alike."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from fairweight.data import load, preprocessing_from
from fairweight.data.table.values import TrainColumn, numbers

COLUMNS = {
    "percentages": (["12.5%", "3 %", "-0.5%", "100%"], [12.5, 3, -0.5, 100]),
    "dollars": (["$1,234.00", "$5", "-$7.50", "$ 0.25"], [1234, 5, -7.5, 0.25]),
    "euros": (["€ 5", "€ 1,234,567", "€ 0.5", "(€ 2)"], [5, 1234567, 0.5, -2]),
    "euros behind": (["5,50 €", "7,25 €", "-1 €"], [5.5, 7.25, -1]),
    "thousands": (["1,234,567", "999", "12,345", "-1,000"], [1234567, 999, 12345, -1000]),
    "thousands and cents": (["1,234.50", "999", "12,345.00"], [1234.5, 999, 12345]),
    "brackets": (["(0.5)", "1.5", "2", "(1,000)"], [-0.5, 1.5, 2, -1000]),
    "groups of two": (["12,34,567.50", "1,23,456", "999"], [1234567.5, 123456, 999]),
    "rupees in groups of two": (["Rs.12,34,567.50", "Rs. 99", "-Rs.1,00,000"], [1234567.5, 99, -100000]),
    "francs": (["CHF 1'169.63", "CHF 426.50", "CHF -2'000'000"], [1169.63, 426.5, -2000000]),
    "francs behind": (["1’169.63 CHF", "426.50 CHF", "(7.00 CHF)"], [1169.63, 426.5, -7]),
    "crowns with blanks": (["1 169,63 kr", "426,50 kr", "12 000 kr"], [1169.63, 426.5, 12000]),
    "euros by name": (["EUR 1.169,63", "EUR 426,50"], [1169.63, 426.5]),
    "bracketed dollars": (["($1,234.00)", "$5", "$(7)"], [-1234, 5, -7]),
}
OTHERS = {
    "one is a word": ["12.5%"] * 30 + ["half"],
    "one lacks the mark": ["12.5%"] * 30 + ["0.125"],
    "a word that is no currency": ["SKU 1", "SKU 2"],
    "one currency by two words": ["CHF 5", "Fr. 5"],
    "two currencies": ["$5", "€ 5", "$6"],
    "an amount mostly": ["$5"] * 30 + ["free"],
    "groups of two and of three": ["1,23,456", "234,567"],
    "two signs": ["--5%", "5%"],
    "a sign in brackets": ["(-5)", "(4)"],
    "half a bracket": ["(5", "4)"],
    "a list": ["1, 2", "3, 4"],
    "dots that may be thousands": ["€ 1.234", "€ 900"],
    "a percentage of money": ["$5%", "$6%"],
    "marks alone": ["%", "$"],
    "a telephone": ["(030) 1234", "(040) 5678"],
}


@pytest.mark.parametrize("case", COLUMNS)
def test_every_entry_is_read_and_missing_ones_stay_missing(case):
    texts, expected = COLUMNS[case]
    seen = TrainColumn(pd.Series([*texts, None, *texts], dtype=object))
    kind, form = seen.kind
    assert kind == "number"
    np.testing.assert_array_equal(seen.numbers, [*expected, np.nan, *expected])
    np.testing.assert_array_equal(numbers(pd.Series(texts[::-1], dtype=object), form), expected[::-1])


@pytest.mark.parametrize("case", OTHERS)
def test_a_column_that_only_mostly_fits_stays_as_it_is(case):
    assert TrainColumn(pd.Series(OTHERS[case], dtype=object)).kind == ("category", "")


def test_what_does_not_have_the_form_is_missing_later():
    _, form = TrainColumn(pd.Series(["12.5%", "3%"], dtype=object)).kind
    found = numbers(pd.Series(["4%", "0.04", "$4", "four", None], dtype=object), form)
    np.testing.assert_array_equal(found, [4, *[np.nan] * 4])
    _, form = TrainColumn(pd.Series(["$1,250", "$3"], dtype=object)).kind
    found = numbers(pd.Series(["$4", "4", "€ 4", "1,5", "2,000", "-$1"], dtype=object), form)
    np.testing.assert_array_equal(found, [4, 4, np.nan, np.nan, 2000, -1])


def test_the_model_sees_the_same_inputs_as_of_plain_numbers_and_so_does_prediction(tmp_path):
    draw = np.random.default_rng(0)
    rate, pay = draw.integers(0, 1000, 200) / 10, draw.integers(-2000, 90_000, 200)
    plain = pd.DataFrame({"rate": rate, "pay": pay, "sex": ["F", "M"] * 100, "paid": ["no", "no", "yes", "yes"] * 50})
    plain.loc[[3, 90], "rate"] = np.nan
    dressed = plain.assign(
        rate=[None if np.isnan(value) else f"{value}%" for value in plain["rate"]],
        pay=[f"(${-value:,}.00)" if value < 0 else f"${value:,}.00" for value in pay],
    )
    dressed.to_csv(tmp_path / "dressed.csv", index=False)
    expected = load(plain, label="paid", group="sex")
    found = load(tmp_path / "dressed.csv", label="paid", group="sex")
    assert torch.equal(found.train.inputs, expected.train.inputs)
    assert torch.equal(found.test.inputs, expected.test.inputs)
    assert any("'rate' is read as numbers: percentages" in note for note in found.notes)
    assert any("'pay' is read as numbers: amounts, without $, brackets" in note for note in found.notes)
    again = preprocessing_from(json.loads(json.dumps(found.preprocessing.to_dict())))
    new = again.read(tmp_path / "dressed.csv")
    assert torch.equal(new.inputs, expected.preprocessing.read(plain).inputs)
    assert not any("no number" in note for note in new.notes)
