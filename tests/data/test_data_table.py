from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from fairweight.data import GroupOptions, LabelOptions, Options, Split, TableOptions, load, preprocessing_from
from fairweight.errors import MissingColumn, SmallCell


def _note(data, *words):
    return any(all(word in note for word in words) for note in data.notes)


def test_csv_tsv_parquet_and_frame_give_the_same_samples(people, tmp_path):
    people.to_csv(tmp_path / "t.csv", index=False)
    people.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    people.to_csv(tmp_path / "t.csv.gz", index=False)
    people.to_parquet(tmp_path / "t.parquet")
    frame = load(people, label="income", group="sex")
    for name in ("t.csv", "t.tsv", "t.csv.gz", "t.parquet"):
        data = load(tmp_path / name, label="income", group="sex")
        assert data.preprocessing.feature_names == frame.preprocessing.feature_names
        for part in ("train", "validation", "exemplar", "test"):
            ours, theirs = getattr(data, part), getattr(frame, part)
            assert torch.equal(ours.labels, theirs.labels)
            assert torch.equal(ours.groups, theirs.groups)
            torch.testing.assert_close(ours.inputs, theirs.inputs)


def test_several_files_by_a_glob_are_one_table(people, tmp_path):
    for number in range(4):
        people.iloc[100 * number : 100 * (number + 1)].to_csv(tmp_path / f"part-{number}.csv", index=False)
    whole = load(people, label="income", group="sex")
    data = load(str(tmp_path / "part-*.csv"), label="income", group="sex")
    assert torch.equal(data.train.labels, whole.train.labels)
    assert _note(data, "4 files were read as one table")


@pytest.mark.parametrize("change", ["numbers", "words", "missing", "constant", "wild"])
def test_what_stands_in_test_rows_never_moves_train(people, tmp_path, change):
    split = Options(split=Split(column="part"))
    people["part"] = np.where(np.arange(400) % 5 == 0, "test", np.where(np.arange(400) % 5 == 1, "val", "train"))
    people.to_csv(tmp_path / "before.csv", index=False)
    test = people["part"] == "test"
    after = people.astype(object)
    if change == "numbers":
        after.loc[test, "age"] = 100000
    elif change == "words":
        after.loc[test, ["age", "hours"]] = "not a number"
        after.loc[test, "job"] = "astronaut"
        after.loc[test, "joined"] = "some day"
    elif change == "missing":
        after.loc[test, ["age", "job", "hours", "joined"]] = None
    elif change == "constant":
        after.loc[test, ["age", "job"]] = after.loc[0, ["age", "job"]].tolist()
    else:
        after.loc[test, "id"] = 7
        after.loc[test, "hours"] = np.inf
    after.to_csv(tmp_path / "after.csv", index=False)
    one = load(tmp_path / "before.csv", label="income", group="sex", options=split)
    two = load(tmp_path / "after.csv", label="income", group="sex", options=split)
    assert torch.equal(one.train.inputs, two.train.inputs)
    assert torch.equal(one.exemplar.inputs, two.exemplar.inputs)
    assert torch.equal(one.train.labels, two.train.labels)
    assert one.preprocessing.to_dict() == two.preprocessing.to_dict()
    assert not torch.equal(one.test.inputs, two.test.inputs)
    assert torch.isfinite(two.test.inputs).all()


def test_the_sensitive_attribute_is_an_input_only_if_asked(people):
    hidden = load(people, label="income", group="sex,race")
    assert not any(name.startswith(("sex", "race")) for name in hidden.preprocessing.feature_names)
    assert _note(hidden, "'sex,race' is kept out of the inputs")
    shown = load(people, label="income", group="sex,race", options=Options(table=TableOptions(group_in_inputs=True)))
    assert {"sex=F", "sex=M", "race=b"} <= set(shown.preprocessing.feature_names)


def test_leaks_are_named(people):
    people["copy"] = people["income"].map({"high": "H", "low": "L"})
    people["number"] = np.where(people["income"] == "high", 3.5, -1.0) + np.linspace(0, 1, 400)
    people["case"] = [f"{i:05d}-{label}" for i, label in enumerate(people["income"])]
    people["flag"] = [f"{i * 37 % 400}_{int(label == 'high')}" for i, label in enumerate(people["income"])]
    data = load(people.assign(income=(people["income"] == "high").astype(int)), label="income")
    named = next(note for note in data.warnings if "give the label" in note)
    for name in ("copy", "number", "flag"):
        assert repr(name) in named
    text = load(people, label="income")
    assert any("'case'" in note for note in text.warnings)
    honest = {"age", "hours", "job", "joined", "sex", "race", "id"}
    assert not any(repr(name) in named for name in honest)
    dropped = load(people, label="income", options=Options(table=TableOptions(drop_leaks=True)))
    assert not any(name.startswith(("copy", "number", "case", "flag")) for name in dropped.preprocessing.feature_names)


@pytest.mark.parametrize("number", [False, True])
def test_a_column_that_gives_most_labels_away_is_suspected_and_stays(people, number):
    wrong = np.arange(400) % 20 == 0
    status = pd.Series(np.where((people["income"] == "high") ^ wrong, "closed", "open"))
    people["status"] = status.map({"open": 0.0, "closed": 5.0}) + np.linspace(0, 1, 400) if number else status
    data = load(people, label="income")
    (named,) = [note for note in data.warnings if "label 'income' away" in note]
    assert "all but give the label 'income' away: 'status'; leave them out with" in named
    kept = load(people, label="income", options=Options(table=TableOptions(drop_leaks=True)))
    assert any(name.startswith("status") for name in kept.preprocessing.feature_names)


def test_a_leak_that_was_left_out_is_not_named(people):
    people["copy"] = people["income"]
    data = load(people, label="income", options=Options(table=TableOptions(drop=("copy",))))
    assert not [note for note in data.warnings if "copy" in note]


def test_a_stand_in_for_the_group_is_named(people):
    people["gender"] = people["sex"].map({"F": "woman", "M": "man"})
    data = load(people, label="income", group="sex")
    assert any("'sex' can be read off 'gender'" in note for note in data.warnings)


def test_crossed_groups_and_small_cells(people):
    crossed = load(people, label="income", group=["sex", "race"])
    assert crossed.group_names == ("F & a", "F & b", "F & c", "M & a", "M & b", "M & c")
    people.loc[:2, "race"] = "rare"
    with pytest.raises(SmallCell, match="'rare'"):
        load(people, label="income", group="race")
    merged = load(people, label="income", group="race", options=Options(groups=GroupOptions(below="merge")))
    assert merged.group_names == ("a", "b", "other")  # one small group takes the next smallest along
    assert _note(merged, "merged into 'other': 'c', 'rare' (", "'c' is the next smallest")
    dropped = load(people, label="income", group="race", options=Options(groups=GroupOptions(below="drop")))
    assert dropped.group_names == ("a", "b", "c")
    assert sum(len(rows) for rows in dropped.rows.values()) == 397
    kept = load(people, label="income", group="race", options=Options(groups=GroupOptions(below="keep")))
    assert kept.group_names == ("a", "b", "c", "rare")
    assert any("small cells were kept" in note for note in kept.warnings)
    people.loc[3:4, "race"] = "rarer"
    merged = load(people, label="income", group="race", options=Options(groups=GroupOptions(floor=9, below="merge")))
    assert _note(merged, "merged into 'other': 'rare', 'rarer' (")
    assert _note(merged, "merged into 'other': 'c' (", "'c' is the next smallest")


def test_chosen_groups_and_the_rest(people):
    merged = load(people, label="income", group="race", options=Options(groups=GroupOptions(only=("a",))))
    assert merged.group_names == ("a", "other")
    options = Options(groups=GroupOptions(only=("a", "c"), rest="drop"))
    dropped = load(people, label="income", group="race", options=options)
    assert dropped.group_names == ("a", "c")
    assert sum(len(rows) for rows in dropped.rows.values()) == int((people["race"] != "b").sum())


@pytest.mark.parametrize(
    ("missing", "names", "unknown"),
    [("unknown", ("F", "M"), True), ("group", ("F", "M", "missing"), False), ("drop", ("F", "M"), False)],
)
def test_rows_without_a_group(people, missing, names, unknown):
    people.loc[::7, "sex"] = None
    data = load(people, label="income", group="sex", options=Options(groups=GroupOptions(missing=missing)))
    assert data.group_names == names
    assert bool((data.train.groups == -1).any()) == unknown
    assert (sum(len(rows) for rows in data.rows.values()) == 400) == (missing != "drop")


def test_thresholds_make_labels_and_groups(people):
    data = load(people, label="hours>=40", group="age<50")
    assert data.label_names == ("hours<40", "hours>=40")
    assert data.group_names == ("age<50", "age>=50")
    expected = (people["hours"] >= 40).to_numpy()[data.rows["train"].numpy()]
    assert torch.equal(data.train.labels.bool(), torch.tensor(expected))
    assert not any(name in ("hours", "age") for name in data.preprocessing.feature_names)


def test_the_positive_label_is_the_one_named(people):
    assert load(people, label="income").label_names == ("high", "low")
    named = load(people, label="income", options=Options(labels=LabelOptions(positive="high")))
    assert named.label_names == ("low", "high")
    ordered = people.assign(income=pd.Categorical(people["income"], ["low", "high"]))
    assert load(ordered, label="income").label_names == ("low", "high")


def test_numbers_as_labels_have_one_spelling(people, tmp_path):
    people["income"] = (people["income"] == "high").astype(float)
    people.iloc[:300].to_csv(tmp_path / "train.csv", index=False)
    people.iloc[300:].astype({"income": int}).to_csv(tmp_path / "test.csv", index=False)
    data = load(tmp_path / "train.csv", label="income", options=Options(split=Split(test=str(tmp_path / "test.csv"))))
    assert data.label_names == ("0", "1")
    assert torch.equal(data.test.labels, torch.tensor(people["income"].iloc[300:].to_numpy()).long())


def test_the_same_column_twice_is_read_once(people, tmp_path):
    text = pd.concat([people, people[["age"]]], axis=1).to_csv(index=False)
    (tmp_path / "t.csv").write_text(text)
    assert _note(load(tmp_path / "t.csv", label="income"), "'age'", "twice with the same values")


def test_a_byte_order_mark_is_no_part_of_the_header(people, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + people[["income", "age", "job"]].to_csv(index=False).encode())
    assert load(tmp_path / "t.csv", label="income").label_names == ("high", "low")


def test_latin_1_is_read_when_named(people, tmp_path):
    people["job"] = people["job"].replace("cook", "Köchin")
    (tmp_path / "t.csv").write_bytes(people.to_csv(index=False).encode("latin-1"))
    data = load(tmp_path / "t.csv", label="income", options=Options(table=TableOptions(encoding="latin-1")))
    assert "job=Köchin" in data.preprocessing.feature_names


class TestPrediction:
    def test_it_travels_as_json_and_gives_the_same_inputs(self, people, tmp_path):
        data = load(people, label="income", group="sex,race")
        again = preprocessing_from(json.loads(json.dumps(data.preprocessing.to_dict())))
        people.to_csv(tmp_path / "new.csv", index=False)
        new = again.read(tmp_path / "new.csv")
        for name in ("train", "test"):
            rows = data.rows[name]
            torch.testing.assert_close(new.inputs[rows], getattr(data, name).inputs)
            assert torch.equal(new.labels[rows], getattr(data, name).labels)
            assert torch.equal(new.groups[rows], getattr(data, name).groups)
        assert again.input_module()(new.inputs) is new.inputs

    def test_labels_and_groups_are_not_needed(self, people):
        data = load(people, label="income", group="sex")
        new = data.preprocessing.read(people.drop(columns=["income", "sex"]))
        assert new.labels is None
        assert new.groups is None
        assert len(new) == 400

    def test_a_missing_column_is_one_sentence(self, people):
        data = load(people, label="income")
        with pytest.raises(
            MissingColumn, match=r"lack the columns 'age', 'job' that the model was trained on"
        ) as caught:
            data.preprocessing.read(people.drop(columns=["age", "job"]))
        assert str(caught.value).count("\n") == 0

    def test_new_categories_and_columns_are_named(self, people):
        data = load(people, label="income")
        people["job"] = people["job"].replace("cook", "astronaut")
        new = data.preprocessing.read(people.assign(extra=1))
        assert any("'astronaut'" in note for note in new.notes)
        assert any("'extra'" in note for note in new.notes)
        places = [i for i, name in enumerate(data.preprocessing.feature_names) if name.startswith("job=")]
        assert (new.inputs[torch.tensor((people["job"] == "astronaut").to_numpy())][:, places] == 0).all()
        two = data.preprocessing.read(people[people["job"] == "astronaut"].head(2)).notes
        one = data.preprocessing.read(people[people["job"] == "astronaut"].head(1)).notes
        said = "Column 'job' has values that train never had ('astronaut') in {} of the rows of the table: all"
        assert any(note.startswith(said.format(2)) for note in two)
        assert any(note.startswith(said.format(1)) for note in one)

    def test_merged_groups_and_unknown_ones(self, people):
        data = load(people, label="income", group="race", options=Options(groups=GroupOptions(only=("a",))))
        new = data.preprocessing.read(people.assign(race="never seen"))
        assert (new.groups == data.group_names.index("other")).all()
        strict = load(people, label="income", group="race")
        assert (strict.preprocessing.read(people.assign(race="never seen")).groups == -1).all()


def test_columns_called_by_numbers_are_known_by_their_text(people):
    named = load(people, label="income", group="sex", options=Options(table=TableOptions(drop=("hours",))))
    numbered = people.set_axis(range(people.shape[1]), axis=1)
    place = {name: number for number, name in enumerate(people.columns)}
    for group in (place["sex"], [place["sex"]], str(place["sex"]), np.int64(place["sex"])):
        options = Options(table=TableOptions(drop=(place["hours"],)))
        data = load(numbered, label=place["income"], group=group, options=options)
        assert torch.equal(data.train.inputs, named.train.inputs)
        assert torch.equal(data.train.groups, named.train.groups)
        assert data.preprocessing.meaning.label == str(place["income"])
        assert torch.equal(data.preprocessing.read(numbered).inputs, named.preprocessing.read(people).inputs)
    crossed = load(numbered, label=place["income"], group=[place["sex"], place["race"]])
    assert crossed.group_names == load(people, label="income", group="sex,race").group_names


def test_parts_by_a_column_called_by_a_number(people):
    parts = ["train", "train", "train", "test"] * (len(people) // 4)
    data = load(
        people.assign(**{"x": parts}).rename(columns={"x": 7}), label="income", options=Options(split=Split(column=7))
    )
    assert len(data.test) == len(people) // 4


def test_two_columns_of_one_text_are_refused(people):
    both = people.assign(**{"13": people["age"]})
    both[13] = people["age"]
    with pytest.raises(MissingColumn, match="the columns '13' and 13, which are both called '13'"):
        load(both, label="income")
