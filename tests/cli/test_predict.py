"""`fairweight predict`: groups it does not know are named, columns are carried along, no cell runs in a spreadsheet."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from tests.command import fairweight
from tests.tables import people


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with a finished run."""
    folder = tmp_path_factory.mktemp("desk")
    people(200).to_csv(folder / "people.csv", index=False)
    few = ("--epochs", "1", "--method", "uniform", "--hidden", "4", "--out", "run")
    done = fairweight(folder, "train", "people.csv", "--label", "income", "--group", "sex", *few)
    assert done.returncode == 0, done.stderr
    return folder


def test_unknown_groups_are_named_and_not_called_missing(desk):
    frame = people(60, seed=1)
    frame.loc[:4, "sex"] = "X"
    frame.loc[5, "sex"] = "Y\x1b[31m"
    frame.loc[7:8, "sex"] = None
    frame.to_csv(desk / "new.csv", index=False)
    done = fairweight(desk, "predict", "run", "new.csv", "--out", "p.csv")
    assert done.returncode == 0
    assert (
        "6 rows have a group 'sex' that the model does not know ('X', 'Y\\\\x1b[31m'; it knows 'F', 'M')" in done.stderr
    )
    assert "2 of 60 rows have no group 'sex'" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    found = json.loads(fairweight(desk, "predict", "run", "new.csv", "--json").stdout)
    assert found["rows"] == 60
    assert found["metrics"]["n"] == 52


def test_columns_are_carried_along(desk):
    frame = people(30, seed=2).assign(id=[f"{place:04d}" for place in range(30)])
    frame.to_csv(desk / "ids.csv", index=False)
    assert fairweight(desk, "predict", "run", "ids.csv", "--keep-columns", "id,job", "--out", "p.csv").returncode == 0
    found = pd.read_csv(desk / "p.csv", dtype=str)
    assert list(found.columns[:4]) == ["row", "id", "job", "predicted"]
    assert found["id"].tolist() == frame["id"].tolist()
    people(30, seed=2).to_parquet(desk / "ids.parquet")
    assert (
        fairweight(desk, "predict", "run", "ids.parquet", "--keep-columns", "id", "--out", "p.parquet").returncode == 0
    )
    assert pd.read_parquet(desk / "p.parquet")["id"].tolist() == people(30, seed=2)["id"].tolist()


def test_a_file_is_written_in_the_format_that_its_name_promises(desk):
    for verb in (["predict", "run", "people.csv"], ["weights", "people.csv", "--label", "income", "--group", "sex"]):
        done = fairweight(desk, *verb, "--out", "p.xlsx")
        assert done.returncode == 2
        assert "name a file that ends in .csv or .parquet" in done.stderr
        assert not (desk / "p.xlsx").exists()
    for verb in (["weights"], ["compare", "--methods", "uniform"]):
        done = fairweight(desk, *verb, "people.csv", "--label", "income", "--group", "sex", "--out", "people.csv/w.csv")
        assert done.returncode == 2
        assert "people.csv is a file" in done.stderr
        assert len(done.stderr.splitlines()) == 1  # said before anything is trained


@pytest.mark.parametrize("columns", ["nobody", "id,nobody", "row"])
def test_columns_that_cannot_be_carried_along(desk, columns):
    people(30).assign(row=1).to_csv(desk / "rows.csv", index=False)
    done = fairweight(desk, "predict", "run", "rows.csv", "--keep-columns", columns, "--out", "never.csv")
    assert done.returncode == 2
    assert "column" in done.stderr
    assert not (desk / "never.csv").exists()


@pytest.mark.parametrize("out", [True, False])
def test_cells_that_a_spreadsheet_would_run_are_quoted(desk, out):
    evil = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "-1.5", "+7", "plain"]
    people(8, seed=3).assign(id=evil).to_csv(desk / "evil.csv", index=False)
    words = ("predict", "run", "evil.csv", "--keep-columns", "id", *(("--out", "p.csv") if out else ()))
    done = fairweight(desk, *words)
    assert done.returncode == 0
    text = (desk / "p.csv").read_text() if out else done.stdout
    cells = [line.split(",")[1] for line in text.splitlines()[1:9]]
    assert cells == ["'=cmd|' /C calc'!A0", "'+1+1", "'-2+3", "'@SUM(A1)", "'\\tx", "-1.5", "+7", "plain"]


def test_the_size_of_a_file_is_bounded_and_can_be_raised(desk):
    people(60).to_csv(desk / "new.csv", index=False)
    done = fairweight(desk, "predict", "run", "new.csv", "--max-file-gb", "0.000001", "--out", "never.csv")
    assert done.returncode == 2
    assert "raise --max-file-gb" in done.stderr
    assert fairweight(desk, "predict", "run", "new.csv", "--max-file-gb", "0.001").returncode == 0
