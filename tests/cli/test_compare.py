"""fairweight compare, as a user meets it."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from fairweight.cli import main


@pytest.fixture
def fairweight(monkeypatch, tmp_path, capsys):
    """Run the command in an empty folder: (status, out, err)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fairweight", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def people(tmp_path):
    """A table with a label that depends on two columns and a group."""
    draw = np.random.default_rng(0)
    rows = 400
    sex = draw.choice(["F", "M"], rows)
    a, b = draw.normal(size=(2, rows))
    score = a + b + 0.8 * (sex == "M") + draw.normal(0, 0.5, rows)
    frame = pd.DataFrame({"a": a, "b": b, "sex": sex, "hired": np.where(score > 0.3, "yes", "no")})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return "people.csv"


@pytest.mark.slow
def test_one_table_with_a_test_and_a_cost(fairweight, people, tmp_path):
    words = ["compare", people, "--label", "hired", "--group", "sex", "--methods", "forml,proportion", "--seeds", "2"]
    words += ["--epochs", "2", "--jobs", "1", "--records", "records"]
    status, out, err = fairweight(*words)
    assert status == 0, err
    for method in ("uniform", "uniform, exemplars in train", "forml", "proportion"):
        assert f"\n{method} " in out
    assert "paired t-test" in out
    assert "× " in out
    assert "seed 1: trained in " in err
    assert err.count(" uniform, exemplars in train, seed 1: ") == 1, "two runs must not have one name"
    (record,) = (tmp_path / "records").glob("*_compare-people/record.json")
    assert json.loads(record.read_text())["cost"]["uniform"] == 1.0
    status, out, err = fairweight(*words, "--json")
    assert status == 0
    assert "[8/8]" in err
    assert err.count("found finished") == 8
    assert {row["key"] for row in json.loads(out)["rows"]} == {"uniform", "uniform-all", "forml", "proportion"}


@pytest.mark.slow
def test_a_method_that_lacks_groups_is_refused_by_name_and_left_out_of_all(fairweight, people, tmp_path):
    words = ["compare", people, "--label", "hired", "--group", "none", "--seeds", "1", "--epochs", "1", "--jobs", "1"]
    status, out, err = fairweight(*words, "--methods", "forml,group-dro")
    assert (status, out) == (2, "")
    assert "group-dro cannot be compared: it needs the group of each training sample" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    status, out, err = fairweight(*words, "--methods", "all")
    assert status == 0, err
    for method in ("group-dro", "proportion"):
        assert f"Not run: {method}: it needs the group of each training sample" in out
    assert "\nmoew " in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["compare", "people.csv", "--label", "hired", "--methods", "magic"], "'magic' is not one of"),
        (["compare", "people.csv", "--label", "wage"], "wage"),
        (["compare", "nothing.csv", "--label", "hired"], "nothing.csv"),
        (["compare", "people.csv", "--label", "hired", "--methods", ","], "--methods names none"),
        (["compare", "people.csv", "--label", "hired", "--delimiter", ";"], "give its --delimiter"),
        (["compare", "people.csv", "--label", "hired", "--group", "sex", "--floor", "300"], "set --small-groups"),
        (["compare", "people.csv", "--label", "hired", "--missing-labels", "x"], "--missing-labels is 'x'"),
        (["compare", "people.csv", "--label", "hired", "--select", "luck"], "choose from: accuracy"),
        (["compare", "people.csv", "--label", "hired", "--engine", "slurm"], "choose processes or ray"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(fairweight, people, tmp_path, words, sentence):
    status, out, err = fairweight(*words)
    assert status == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "runs").exists()


def test_own_data_is_read_as_train_reads_it(fairweight, people, tmp_path):
    frame = pd.read_csv(people)
    frame.loc[::9, "hired"] = None
    frame.to_csv("sheet.csv", index=False, sep=";")
    words = ["compare", "sheet.csv", "--label", "hired", "--group", "sex", "--methods", "uniform", "--seeds", "1"]
    words += ["--epochs", "1", "--jobs", "1", "--delimiter", "semicolon", "--test", "0.3", "--drop", "b", "--json"]
    status, _, err = fairweight(*words)
    assert status == 2
    assert "leave them out with --missing-labels drop" in err
    status, out, err = fairweight(*words, "--missing-labels", "drop", "--positive", "no")
    assert status == 0, err
    notes = " ".join(json.loads(out)["notes"])
    for note in ("'no' is the positive one", "Left out as asked: 'b'", "Test: 106 rows", "45 rows"):
        assert note in notes
