"""The command line and the estimator give the same model: same rows, same seed, same digits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.command import fairweight
from tests.tables import people

import fairweight as fw
from fairweight.errors import BadInput
from fairweight.runs.folder import RunFolder


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """With text, dates, missing numbers and a column that says which rows are for test."""
    frame = people(900, seed=4)
    frame.loc[::17, "hours"] = np.nan
    return frame.assign(part=np.where(np.arange(900) % 5 == 0, "test", "train"))


def trained(folder, *words: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Probabilities for new.csv and the row per training sample, by `fairweight train`."""
    done = fairweight(folder, "train", *words, "--label", "income", "--epochs", "6", "--no-baseline", "--out", "run")
    assert done.returncode == 0, done.stderr
    done = fairweight(folder, "predict", "run", "new.csv", "--out", "new.parquet")
    assert done.returncode == 0, done.stderr
    return pd.read_parquet(folder / "new.parquet"), RunFolder(folder / "run").read_weights()


def compare(found: pd.DataFrame, weights: pd.DataFrame, model: fw.FairweightClassifier, new, rows) -> None:
    """rows: by place among the samples that the estimator was given, their rows in the file."""
    chances = model.predict_proba(new)
    for k, name in enumerate(model.classes_):
        np.testing.assert_array_equal(chances[:, k], found[f"probability_{name}"].to_numpy())
    np.testing.assert_array_equal(model.predict(new), found["predicted"].to_numpy(dtype=object))
    kept = weights.set_index("row").reindex(rows)
    np.testing.assert_array_equal(np.isnan(model.scores_), kept["score"].isna())
    np.testing.assert_array_equal(model.scores_[~np.isnan(model.scores_)], kept["score"].dropna())
    mine = model.sample_weights_ / model.sample_weights_[~np.isnan(model.scores_)].mean()
    np.testing.assert_allclose(mine[kept["weight"].notna()], kept["weight"].dropna(), rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("way", ["column", "file"])
def test_the_same_rows_and_seed_give_the_same_model(way, seed, table, tmp_path):
    test = table["part"] == "test"
    people(50, seed=9).to_csv(tmp_path / "new.csv", index=False)
    if way == "column":
        table.to_csv(tmp_path / "people.csv", index=False)
        said, rows = ("--split-column", "part"), np.nonzero(~test)[0]
    else:
        table[~test].drop(columns="part").to_csv(tmp_path / "people.csv", index=False)
        table[test].drop(columns="part").to_csv(tmp_path / "test.csv", index=False)
        said, rows = ("--test", "test.csv"), np.arange((~test).sum())
    found, weights = trained(tmp_path, "people.csv", "--group", "sex", "--seed", str(seed), *said)
    given = table[~test]
    model = fw.FairweightClassifier("forml", epochs=6, random_state=seed)
    model.fit(given.drop(columns=["income", "sex", "part"]), given["income"], sensitive_features=given["sex"])
    new = people(50, seed=9).drop(columns=["income", "sex"])
    compare(found, weights, model, new, rows)


@pytest.mark.slow
def test_several_groups_are_crossed_alike_and_labels_alone_are_groups_alike(table, tmp_path):
    people(50, seed=9).to_csv(tmp_path / "new.csv", index=False)
    table.to_csv(tmp_path / "people.csv", index=False)
    given = table[table["part"] != "test"]
    new = people(50, seed=9)
    for group in (["sex", "race"], []):
        words = ("--group", ",".join(group) or "none", "--split-column", "part", "--method", "forml", "--fresh")
        found, weights = trained(tmp_path, "people.csv", *words)
        drop = ["income", *group]
        model = fw.FairweightClassifier("forml", epochs=6, random_state=0)
        model.fit(
            given.drop(columns=[*drop, "part"]), given["income"], sensitive_features=given[group] if group else None
        )
        compare(found, weights, model, new.drop(columns=drop), given.index)


def test_a_criterion_gives_both_the_same_objective(table, tmp_path):
    people(50, seed=9).to_csv(tmp_path / "new.csv", index=False)
    table.to_csv(tmp_path / "people.csv", index=False)
    given, new = table[table["part"] != "test"], people(50, seed=9).drop(columns=["income", "sex"])
    words = ("--group", "sex", "--split-column", "part", "--method", "forml", "--criterion", "equalized-odds")
    found, weights = trained(tmp_path, "people.csv", *words)
    usual, asked = (
        fw.FairweightClassifier("forml", criterion=name, epochs=6, random_state=0).fit(
            given.drop(columns=["income", "sex", "part"]), given["income"], sensitive_features=given["sex"]
        )
        for name in (None, "equalized-odds")
    )
    compare(found, weights, asked, new, given.index)
    assert (usual.predict_proba(new) != asked.predict_proba(new)).any()


@pytest.mark.parametrize("said", [{"groups_at_prediction": True}, {"learner": "trees"}])
@pytest.mark.parametrize(("one", "low"), [({"method": "forml"}, 900), ({"objective": "mean"}, 900), ({}, 4)])
def test_what_chooses_among_candidates_is_refused_where_none_are_compared(said, one, low, table):
    model = fw.FairweightClassifier(epochs=1, pos_label="high", **said, **one)
    given = table[(table["income"] == "high") | ((table["income"] == "low").cumsum() <= low)]
    with pytest.raises(BadInput, match="takes 5 samples of each class and no method"):
        model.fit(given[["age"]], given["income"], sensitive_features=given["sex"])


def test_an_array_is_a_frame_of_numbers():
    rng = np.random.default_rng(0)
    x, y, group = rng.normal(size=(400, 3)), rng.integers(2, size=400), rng.choice(["a", "b"], 400)
    frame = pd.DataFrame(x, columns=["one", "two", "three"])
    array, table = (
        fw.FairweightClassifier("forml", epochs=4, random_state=0).fit(given, y, sensitive_features=group)
        for given in (x, frame)
    )
    np.testing.assert_array_equal(array.predict_proba(x), table.predict_proba(frame))
    np.testing.assert_array_equal(array.sample_weights_, table.sample_weights_)


def test_a_frame_with_text_takes_sample_weights_and_a_trusted_frame(table):
    inputs, rows = ["age", "hours", "job", "joined"], table["part"] != "test"
    given, trusted = table[rows], table[~rows]
    model = fw.FairweightClassifier("forml", epochs=3, random_state=0)
    model.fit(
        given[inputs],
        given["income"],
        sensitive_features=given["sex"],
        sample_weight=np.where(given["job"] == "cook", 2.0, 1.0),
        exemplar=(trusted[inputs], trusted["income"], trusted["sex"]),
    )
    assert model.groups_ == ("F", "M")
    assert 0.05 < np.isnan(model.scores_).mean() < 0.15, "validation alone is kept out"
    assert model.predict_proba(trusted[inputs]).shape == (len(trusted), 2)
    assert model.feature_names_in_.tolist() == inputs


@pytest.mark.slow
def test_the_judged_model_is_the_same_through_both_doors(table, tmp_path):
    table.to_csv(tmp_path / "people.csv", index=False)
    people(50, seed=9).to_csv(tmp_path / "new.csv", index=False)
    words = ("--label", "income", "--group", "sex", "--split-column", "part", "--epochs", "4", "--seed", "3")
    done = fairweight(tmp_path, "train", "people.csv", *words, "--budget", "2", "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert fairweight(tmp_path, "predict", "run", "new.csv", "--out", "new.parquet").returncode == 0
    found = pd.read_parquet(tmp_path / "new.parquet")
    given = table[table["part"] != "test"]
    model = fw.FairweightClassifier(epochs=4, budget=2, random_state=3)
    model.fit(given.drop(columns=["income", "sex", "part"]), given["income"], sensitive_features=given["sex"])
    chances = model.predict_proba(people(50, seed=9).drop(columns=["income", "sex"]))
    for k, name in enumerate(model.classes_):
        np.testing.assert_array_equal(chances[:, k], found[f"probability_{name}"].to_numpy())
    assert model.chosen_ == RunFolder(tmp_path / "run").read("metrics.json")["chosen"]
    weights = RunFolder(tmp_path / "run").read_weights().set_index("row").reindex(given.index)["weight"]
    np.testing.assert_allclose(model.sample_weights_, weights / weights.mean(), rtol=1e-6)
