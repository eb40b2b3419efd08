"""suspects and clean on a table with planted wrong labels and trusted exemplars, as a user starts them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from tests.command import fairweight

from fairweight.runs.run import run as train
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for

SPLIT = {"split": {"column": "part"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """People whose group F has a fifth of its labels wrong in train, and exemplars that were checked."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("clean")
    random = np.random.default_rng(0)
    n = 3_000
    x, sex = random.normal(size=n), random.choice(["F", "M"], n)
    true = np.where(2 * x + 0.7 * random.normal(size=n) > 0, "yes", "no")
    part = random.choice(["train", "exemplar", "validation", "test"], n, p=[0.6, 0.1, 0.1, 0.2])
    bad = (part == "train") & (sex == "F") & (random.random(n) < 0.2)
    label = np.where(bad, np.where(true == "yes", "no", "yes"), true)
    frame = pd.DataFrame({"x": x, "z": random.normal(size=n), "sex": sex, "label": label, "part": part})
    frame.to_csv(folder / "people.csv", index=False)
    spec = Spec(
        str(folder / "people.csv"), label="label", group="sex", data=SPLIT, method="forml",
        network={"name": "mlp", "hidden": [16]}, epochs=6, batch_size=64, lr=0.01,
    )  # fmt: skip
    train(spec, folder / "run")
    drawn = {"split": {"validation": 0.1}, "table": {"drop": ["part"]}}
    train(spec.with_(data=drawn, epochs=2), folder / "untrusted")
    return folder, bad, true


@pytest.mark.slow
def test_suspects_count_wrong_labels_by_label_and_group_and_name_the_true_one(place):
    folder, bad, true = place
    done = fairweight(folder, "suspects", "run", "--json", "--relabel", "suggested", "--drop")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    counts = {(row["by"], row["name"]): row for row in found["wrong"]}
    assert counts["all", ""]["low"] <= bad.sum() <= counts["all", ""]["high"]
    assert counts["group", "F"]["wrong"] > 5 * counts["group", "M"]["wrong"]
    ranked = pd.read_csv(folder / "run" / "suspects.csv")
    assert {"posterior", "given", "suggested", "group", "cell", "weight"} <= set(ranked.columns)
    first = ranked.head(int(0.7 * bad.sum()))
    assert bad[first["row"]].mean() > 0.85
    assert (ranked["suggested"].notna() == ranked["suspected"]).all()  # empty where the label stands
    mended = pd.read_csv(folder / "run" / "relabelled.csv")
    rows = mended["row"].to_numpy()
    assert (mended["label"].to_numpy() == true[rows]).mean() > (mended["given"].to_numpy() == true[rows]).mean() + 0.04
    kept = pd.read_csv(folder / "run" / "kept.csv")
    assert bad[kept["row"]].mean() < 0.5 * bad[rows].mean()


@pytest.mark.slow
def test_soft_labels_are_chances_that_sum_to_one(place):
    folder, *_ = place
    assert fairweight(folder, "suspects", "run", "--relabel", "soft").returncode == 0
    soft = pd.read_csv(folder / "run" / "relabelled.csv")
    assert soft[["chance of no", "chance of yes"]].sum(axis=1).to_numpy() == pytest.approx(1.0)


@pytest.mark.slow
def test_exemplars_that_were_drawn_are_not_trusted_unless_the_user_says_so(place):
    folder, *_ = place
    text = fairweight(folder, "suspects", "untrusted").stdout
    assert "cannot be said without trusted rows" in text
    assert "--exemplars" in text
    said = json.loads(fairweight(folder, "suspects", "untrusted", "--trust", "--json").stdout)
    assert said["wrong"][0]["by"] == "all"
    for words in (("suspects", "untrusted", "--relabel", "suggested"), ("clean", "untrusted")):
        done = fairweight(folder, *words)
        assert done.returncode == 2
        assert "--trust" in done.stderr
    done = fairweight(folder, "suspects", "run", "--relabel", "best")
    assert done.returncode == 2
    assert "choose suggested or soft" in done.stderr


@pytest.mark.slow
def test_clean_trains_every_way_beside_a_random_drop_of_the_same_cells_and_gives_a_verdict(place):
    folder, *_ = place
    done = fairweight(folder, "clean", "run", "--seeds", "2", "--jobs", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert set(found["methods"]) == {"uniform", "forml"}
    assert set(found["methods"]["uniform"]) == {"as-given", "relabelled", "weighted", "dropped", "random-drop"}
    assert all(cell["after"] >= cell["before"] / 2 for cell in found["cells"])
    plain = found["methods"]["uniform"]
    assert all(set(arm["seeds"]) == {"0", "1"} for arm in plain.values())
    assert found["advice"]
    frame = pd.read_csv(folder / "people.csv")
    cells = [frame.loc[_rows(folder / "run" / "clean" / name)].groupby(["label", "sex"]).size().to_dict()
             for name in ("kept.txt", "random_seed0.txt")]  # fmt: skip
    assert cells[0] == cells[1]
    again = fairweight(folder, "clean", "run", "--seeds", "2", "--jobs", "1")
    assert "Test labels are as given: where they are wrong too" in again.stdout


def _rows(path):
    return [int(line) for line in path.read_text().split()]


def test_a_spec_with_mended_labels_trains_on_them_and_refuses_a_file_that_changed(place, tmp_path):
    from hashlib import sha256

    from fairweight.errors import BadInput

    folder, *_ = place
    spec = Spec(str(folder / "people.csv"), label="label", group="sex", data=SPLIT)
    plain = dataset_for(spec)
    row = int(plain.rows["train"][5])
    other = plain.label_names[1 - int(plain.train.labels[5])]
    content = f"row,label\n{row},{other}\n".encode()
    (tmp_path / "mended.csv").write_bytes(content)
    rule = {"labels": {"file": "mended.csv", "sha256": sha256(content).hexdigest()}}
    mended = dataset_for(spec.with_(rows=rule), beside=tmp_path)
    assert (mended.train.labels != plain.train.labels).nonzero().flatten().tolist() == [5]
    assert any("1 of" in note and "mended" in note for note in mended.notes)
    (tmp_path / "mended.csv").write_bytes(content.replace(other.encode(), b"perhaps"))
    with pytest.raises(BadInput, match="has changed"):
        dataset_for(spec.with_(rows=rule), beside=tmp_path)
