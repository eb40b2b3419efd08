"""What a column of a table is read as: numbers, categories, dates, durations, booleans."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from fairweight.data import Options, TableOptions, load
from fairweight.data.table.values import TrainColumn


def _note(data, *words):
    return any(all(word in note for word in words) for note in data.notes)


def _inputs(data, name):
    return data.train.inputs[:, data.preprocessing.feature_names.index(name)]


def test_numbers_are_standardised_by_train(people):
    data = load(people, label="income")
    age = _inputs(data, "age")
    assert age.mean() == pytest.approx(0.0, abs=1e-5)
    assert age.std(correction=0) == pytest.approx(1.0, abs=1e-5)
    assert data.test.inputs[:, data.preprocessing.feature_names.index("age")].mean() != pytest.approx(0.0, abs=1e-5)


def test_kinds_are_found_and_can_be_overridden(people):
    data = load(people, label="income", group="sex")
    names = data.preprocessing.feature_names
    assert {"age", "hours", "joined", "job=clerk", "job=pilot", "race=a"} <= set(names)
    assert not any(name.startswith(("id", "sex", "income")) for name in names)
    assert _note(data, "look like ids", "'id'")
    assert _note(data, "'joined' holds dates")
    options = Options(table=TableOptions(categorical=("age",), keep=("id",), drop=("job",), max_categories=10))
    changed = load(people, label="income", group="sex", options=options)
    names = changed.preprocessing.feature_names
    assert "id" in names
    assert "job=clerk" not in names
    assert sum(name.startswith("age=") for name in names) == 11  # ten ages and one place for the others
    assert _note(changed, "'age' has", "most frequent")


def test_missing_values_are_filled_and_marked(people):
    people["hours"] = people["hours"].where(people.index % 4 != 0)
    people["job"] = people["job"].where(people.index % 5 != 0)
    data = load(people, label="income")
    rows = data.rows["train"].numpy()
    missing = torch.tensor(people["hours"].isna().to_numpy()[rows])
    assert torch.equal(_inputs(data, "hours=(missing)").bool(), missing)
    median = people["hours"].iloc[rows].median()
    column = next(column for column in data.preprocessing.columns if column.name == "hours")
    torch.testing.assert_close(
        _inputs(data, "hours")[missing].unique(), torch.tensor([(median - column.mean) / column.std]).float()
    )
    assert torch.equal(_inputs(data, "job=(missing)").bool(), torch.tensor(people["job"].isna().to_numpy()[rows]))
    assert _note(data, "Missing values filled", "'hours'", "'job'")


def test_constant_empty_and_half_empty_columns(people):
    people["same"] = "x"
    people["empty"] = None
    people["sometimes"] = np.where(people.index % 2 == 0, "yes", None)
    data = load(people, label="income")
    assert _note(data, "constant or empty", "'same'", "'empty'")
    assert "sometimes=(missing)" in data.preprocessing.feature_names  # whether it is there is a sign


def test_a_few_words_among_numbers_are_missing_numbers(people):
    people["hours"] = people["hours"].astype(object)
    people.loc[people.index[:4], "hours"] = "unknown"
    data = load(people, label="income")
    assert "hours" in data.preprocessing.feature_names
    assert _note(data, "'hours'", "'unknown'")


@pytest.mark.parametrize(
    ("texts", "form", "expected"),
    [
        (["1,5", "2,25", "-3,0"], "decimal", [1.5, 2.25, -3.0]),
        (["1,500", "2,250", "3"], "thousands", [1500.0, 2250.0, 3.0]),
        (["1.5", " 2 ", "1e3"], "", [1.5, 2.0, 1000.0]),
    ],
)
def test_decimal_commas_and_thousands(texts, form, expected):
    seen = TrainColumn(pd.Series(texts))
    assert seen.kind == ("number", form)
    assert seen.numbers.tolist() == expected


def test_what_a_comma_means_is_settled_by_train(people):
    people["hours"] = [f"{hours:.1f}".replace(".", ",") for hours in people["hours"]]
    data = load(people, label="income")
    new = data.preprocessing.read(people.assign(hours="1,500"))  # looks like a thousand, and is one and a half here
    column = next(column for column in data.preprocessing.columns if column.name == "hours")
    place = data.preprocessing.feature_names.index("hours")
    assert new.inputs[:, place] * column.std + column.mean == pytest.approx(1.5, abs=1e-4)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%Y-%m-%d %H:%M:%S"])
def test_dates_are_days_in_every_usual_form(people, form):
    moments = pd.to_datetime(people["joined"])
    people["joined"] = moments.dt.strftime(form)
    data = load(people, label="income")
    expected = torch.tensor(((moments - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy()[data.rows["train"].numpy()])
    column = next(column for column in data.preprocessing.columns if column.name == "joined")
    torch.testing.assert_close(_inputs(data, "joined").double() * column.std + column.mean, expected, rtol=0, atol=0.01)


@pytest.mark.parametrize("kind", ["bool", "boolean"])
def test_booleans_are_read_alike_from_every_kind_of_file(people, tmp_path, kind):
    people["member"] = pd.Series(np.arange(400) % 3 == 0).astype(kind)
    people.to_csv(tmp_path / "t.csv", index=False)
    people.to_parquet(tmp_path / "t.parquet")
    text, typed = (load(tmp_path / name, label="income") for name in ("t.csv", "t.parquet"))
    assert text.preprocessing.feature_names == typed.preprocessing.feature_names
    torch.testing.assert_close(text.train.inputs, typed.train.inputs)
    new = typed.preprocessing.read(tmp_path / "t.csv")
    torch.testing.assert_close(new.inputs, typed.preprocessing.read(tmp_path / "t.parquet").inputs)
    assert not [note for note in new.notes if "member" in note]


def test_durations_are_numbers_of_days(people):
    people["waited"] = pd.to_timedelta(people["hours"].where(people["hours"] > 30), unit="h")
    data = load(people, label="income", group="sex")
    assert {"waited", "waited=(missing)"} <= set(data.preprocessing.feature_names)
    column = next(column for column in data.preprocessing.columns if column.name == "waited")
    assert column.fill == pytest.approx(people["hours"][people["hours"] > 30].median() / 24, rel=0.05)


def test_categories_that_are_mostly_numbers_are_named(people):
    people["mixed"] = people["hours"].astype(str).where(people.index % 10 > 0, "unknown")
    data = load(people, label="income", group="sex")
    assert _note(data, "'mixed' has ", "Most entries are numbers: name it in table.numeric to read the others")
    data = load(people, label="income", group="sex", options=Options(table=TableOptions(numeric=("mixed",))))
    assert _note(data, "'mixed'", "read as missing")
