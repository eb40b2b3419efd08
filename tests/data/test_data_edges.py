"""Tables as people have them: infinite numbers, names with commas, rows that stand twice, groups that train lacks."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import torch
from tests.command import fairweight
from tests.tables import people

from fairweight.data import Options, Split, load


def test_infinite_entries_are_missing_and_the_column_stays_a_number(tmp_path):
    frame = people().assign(ratio=np.resize(np.linspace(-3, 3, 97), 400))
    frame.loc[frame.index % 8 == 0, "ratio"] = np.inf
    frame.loc[frame.index % 8 == 1, "ratio"] = -np.inf
    frame.to_csv(tmp_path / "p.csv", index=False)
    for source in (str(tmp_path / "p.csv"), frame):
        data = load(source, label="income", group="sex")
        (column,) = (c for c in data.preprocessing.columns if c.name == "ratio")
        assert (column.kind, column.missing) == ("number", True)
        assert abs(column.mean) < 1
        assert np.isfinite(data.train.inputs.numpy()).all()
        assert any("'ratio'" in note and "no number" in note for note in data.notes)


def test_a_column_of_infinities_alone_is_no_number():
    frame = people().assign(ratio=np.resize(["inf", "-inf"], 400))
    (column,) = (c for c in load(frame, label="income", group="sex").preprocessing.columns if c.name == "ratio")
    assert column.kind == "category"


def test_a_group_column_may_have_commas_in_its_name():
    frame = people().rename(columns={"sex": "sex, at birth"})
    whole = load(frame, label="income", group="sex, at birth")
    assert whole.group_names == load(people(), label="income", group="sex").group_names
    assert "sex, at birth" not in [column.name for column in whole.preprocessing.columns]
    crossed = load(frame.assign(sex="a"), label="income", group=["sex, at birth"])
    assert crossed.group_names == whole.group_names


def test_test_rows_that_stand_in_train_are_counted():
    frame = people()
    assert not any("equal to a row of train" in note for note in load(frame, label="income", group="sex").notes)
    twice = pd.concat([frame, frame], ignore_index=True)
    (note,) = (n for n in load(twice, label="income", group="sex").notes if "equal to a row of train" in n)
    assert note.startswith("Warning: ")  # ages and hours have about a value per row: they are copies
    assert "keep one of each" in note
    rounded = frame[["income", "sex"]].assign(age=frame["age"] // 10)
    (note,) = (n for n in load(rounded, label="income", group="sex").notes if "equal to a row of train" in n)
    assert note.startswith(tuple("123456789"))
    train, test = frame.assign(part="train"), frame[:40].assign(part="test")
    parts = pd.concat([train, test], ignore_index=True)
    data = load(parts, label="income", group="sex", options=Options(split=Split(column="part")))
    assert len(data.test) == 40


def test_one_column_is_told_in_the_singular():
    frame = people()[["income", "sex", "age"]]
    assert any(
        note == "Inputs: 1 column became 1 number per row." for note in load(frame, label="income", group="sex").notes
    )


def test_groups_that_train_lacks_are_needed_on_exemplars_and_test_alone(tmp_path):
    frame = people(500)
    frame[:300].drop(columns="sex").to_csv(tmp_path / "train.csv", index=False)
    frame[300:400].to_csv(tmp_path / "exemplars.csv", index=False)
    frame[400:].to_csv(tmp_path / "test.csv", index=False)
    words = [
        "train",
        "train.csv",
        "--label",
        "income",
        "--group",
        "sex",
        "--exemplars",
        "exemplars.csv",
        "--test",
        "test.csv",
        "--epochs",
        "2",
    ]
    done = fairweight(tmp_path, *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "no validation row has a group label" in " ".join(done.stderr.split())
    assert "--group-in-inputs" not in done.stdout, "train has no group that the model could be shown"
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert [group["group"] for group in metrics["groups"]] == ["F", "M"]
    for epoch in metrics["run"]["history"]:
        assert set(epoch["validation"]) == {"loss", "objective", "accuracy"}
        assert epoch["validation"]["objective"] == epoch["validation"]["loss"]
    swept = fairweight(tmp_path, *words, "--out", "swept", "--trade-off")
    assert swept.returncode == 2
    assert "no validation row has a group" in swept.stderr
    assert not (tmp_path / "swept").exists()


def test_names_with_commas_stand_in_quotes_in_lists(tmp_path):
    people().rename(columns={"age": "age, in years"}).to_csv(tmp_path / "p.csv", index=False)
    words = ["train", "p.csv", "--label", "income", "--group", "sex", "--epochs", "1", "--no-baseline", "--out", "run"]
    done = fairweight(tmp_path, *words, "--drop", '"age, in years"')
    assert done.returncode == 0, done.stderr
    assert "Left out as asked: 'age, in years'." in done.stderr


def test_a_label_with_many_values_may_be_allowed(tmp_path):
    frame = pd.concat([people(400).assign(code=np.resize(np.arange(120), 400))] * 3, ignore_index=True)
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = ["train", "p.csv", "--label", "code", "--group", "none", "--epochs", "1", "--no-baseline", "--out", "run"]
    refused = fairweight(tmp_path, *words)
    assert refused.returncode == 2
    assert "raise --max-classes" in refused.stderr
    assert fairweight(tmp_path, *words, "--max-classes", "200").returncode == 0


def test_names_that_look_the_same_or_differ_by_capitals_or_blanks_are_named():
    frame = people()
    frame.loc[frame.index % 3 == 0, "sex"] = "f"
    data = load(frame, label="income", group="sex")
    assert data.group_names == ("F", "M", "f")
    assert any("capitals or blanks alone" in note and "'F', 'f'" in note for note in data.notes)
    frame = people()
    frame.loc[frame.index % 3 == 0, "income"] = "High"
    assert any("labels of 'income'" in note and "capitals" in note for note in load(frame, label="income").notes)
    frame = people()
    frame["sex"] = np.array(["\u00e9", "e\u0301", "a b", "a  b"])[np.arange(len(frame)) % 4]
    data = load(frame, label="income", group="sex")
    assert any("'a  b', 'a b'; 'e\u0301', '\u00e9'" in note for note in data.warnings)
    assert not any("capitals" in note for note in load(people(), label="income", group="sex").notes)


def test_a_column_name_with_a_line_break_costs_no_row(tmp_path):
    rows = "".join(f"{20 + n * 7 % 31},{'mf'[n % 2]},{'ab'[n // 2 % 2]}\n" for n in range(60))
    plain, broken = tmp_path / "plain.csv", tmp_path / "broken.csv"
    plain.write_text(f"age,sex,income\n{rows}")
    broken.write_text(f'\n"age\nin years",sex,income\n{rows}')
    expected, found = load(plain, label="income", group="sex"), load(broken, label="income", group="sex")
    assert sum(map(len, found.rows.values())) == 60
    assert torch.equal(found.train.inputs, expected.train.inputs)


def test_lines_may_end_in_carriage_returns_alone(tmp_path):
    lines = ["age,sex,income", *(f"{20 + n * 7 % 31},{'mf'[n % 2]},{'ab'[n // 2 % 2]}" for n in range(60))]
    path = tmp_path / "macintosh.csv"
    path.write_bytes("\r".join(lines).encode())
    assert sum(map(len, load(path, label="income", group="sex").rows.values())) == 60


def test_numbers_at_the_ends_of_what_a_float_holds_are_scaled(tmp_path):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"large": draw.normal(size=200) * 1e300, "small": draw.normal(size=200) * 1e-300})
    data = load(frame.assign(y=draw.integers(0, 2, 200)), label="y")
    np.testing.assert_allclose(data.train.inputs.std(dim=0, correction=0), [1, 1], rtol=1e-3)
    assert all(np.isfinite([column.mean, column.std]).all() for column in data.preprocessing.columns)
    far = data.preprocessing.read(pd.DataFrame({"large": [1e308, -1e308, 0.0], "small": [1e300, 1.0, 0.0]}))
    assert bool(far.inputs.isfinite().all())
