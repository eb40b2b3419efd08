"""`fairweight train` and `fairweight predict`, as a newcomer uses them."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.command import fairweight
from tests.tables import people

from fairweight.runs.folder import RunFolder

FILES = {"run.json", "log.jsonl", "metrics.json", "weights.parquet", "model.safetensors", "preprocessing.json"}
TABLE = ("people.csv", "--label", "income", "--group", "sex", "--positive", "high", "--method", "forml")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A table, and a run that was trained on it."""
    folder = tmp_path_factory.mktemp("desk")
    people(1200).to_csv(folder / "people.csv", index=False)
    done = fairweight(folder, "train", *TABLE, "--out", "run", "--epochs", "8")
    assert done.returncode == 0, done.stderr
    (folder / "screen.txt").write_text(done.stdout)
    (folder / "opening.txt").write_text(done.stderr)
    return folder


@pytest.mark.slow
def test_the_run_folder_is_that_of_the_design_with_plain_training_inside(desk):
    assert {path.name for path in (desk / "run").iterdir() if path.is_file()} >= FILES
    assert {path.name for path in (desk / "run" / "uniform").iterdir()} >= FILES
    assert not (desk / "run" / "checkpoint.safetensors").exists()
    metrics = json.loads((desk / "run" / "metrics.json").read_text())
    assert {"accuracy", "tprd", "max_fnr", "groups", "intervals", "n"} <= set(metrics)
    weights = RunFolder(desk / "run").read_weights()
    assert {"row", "label", "group", "score", "weight", "ema_weighted_loss", "forgetting_events"} <= set(weights)
    assert weights["weight"].mean() == pytest.approx(1.0, rel=1e-4)
    plain = json.loads((desk / "run" / "uniform" / "run.json").read_text())["spec"]
    ours = json.loads((desk / "run" / "run.json").read_text())["spec"]
    differing = {key for key in ours if ours[key] != plain[key]}
    assert differing == {"method", "method_options"}


def test_settings_are_printed_before_training(desk):
    opening = (desk / "opening.txt").read_text()
    first = opening.index("forml: epoch 1/8")
    for words in ("Rows: ", "method ", "objective mean + 0.3 * equal-opportunity-rate", "network ", "mlp, hidden 64-64",
                  "optimizer ", "learning rate 0.001", "up to 8", " of each of 4 cells"):  # fmt: skip
        assert opening.index(words) < first, words
    assert opening.index("uniform: epoch 1/8") > first


def test_the_end_says_gap_accuracy_epoch_seed_and_where_to_look_next(desk):
    screen = " ".join((desk / "screen.txt").read_text().split())
    metrics = json.loads((desk / "run" / "metrics.json").read_text())
    before, after = (f"{100 * metrics[name]['value']:.2f}" for name in ("gap_before", "gap_after"))
    change = metrics["gap_change"]
    limits = f"95 % interval {100 * change['low']:+.1f} to {100 * change['high']:+.1f}"
    assert f"gap {before} → {after} points ({100 * change['value']:+.2f}, {limits})" in screen
    assert f"accuracy {100 * metrics['accuracy_before']:.2f} → {100 * metrics['accuracy_after']:.2f} " in screen
    assert f"Kept forml, epoch {metrics['kept_epoch']}" in screen
    assert f"How sure one seed, {metrics['n']:,} test rows" in screen
    assert "Look next: fairweight audit run" in screen
    assert screen.index("fairweight audit run") < screen.index("fairweight predict run FILE")


def test_the_last_screen(desk):
    screen = (desk / "screen.txt").read_text()
    metrics = json.loads((desk / "run" / "metrics.json").read_text())
    for group in ("F", "M"):
        assert re.search(rf"^{group} +\d+ +\d+ +0\.\d+ \[0\.\d+, [01]\.\d+\]", screen, re.MULTILINE)
    for title, name in (("TPRD", "tprd"), ("maxFNR", "max_fnr"), ("accuracy", "accuracy")):
        row = re.search(rf"^{title} +(\S+) \[.*?\] +(\S+) \[.*?\] +([+-]\S+) \[.*?\]$", screen, re.MULTILINE)
        assert row is not None, title
        assert float(row[2]) == pytest.approx(100 * metrics[name], abs=0.006)
        assert float(row[3]) == pytest.approx(float(row[2]) - float(row[1]), abs=0.011)
    sentence = screen.replace("\n", " ")
    assert re.search(
        r"(Helps|No clear effect|Worse): equal-opportunity gap .* by forml beside plain training", sentence
    )
    assert re.search(r"95 % interval [+-]\S+ to [+-]\S+\), accuracy", sentence)


def test_the_same_command_again_trains_nothing(desk):
    before = {path: path.stat().st_mtime_ns for path in (desk / "run").rglob("*") if path.is_file()}
    done = fairweight(desk, "train", *TABLE, "--out", "run", "--epochs", "8")
    assert done.returncode == 0
    assert "forml and uniform found finished" in done.stdout
    assert "Trained in" not in done.stdout
    assert "epoch 1/8" not in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_other_settings_are_refused_and_fresh_starts_over(desk, tmp_path):
    people(300).to_csv(tmp_path / "people.csv", index=False)
    quick = ("train", *TABLE, "--out", "run", "--no-baseline")
    assert fairweight(tmp_path, *quick, "--epochs", "1").returncode == 0
    done = fairweight(tmp_path, *quick, "--epochs", "2")
    assert done.returncode == 2
    assert "other settings or data" in done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["spec"]["epochs"] == 1
    assert fairweight(tmp_path, *quick, "--epochs", "2", "--fresh").returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["spec"]["epochs"] == 2
    people(300, seed=1).to_csv(tmp_path / "people.csv", index=False)  # the same name, other rows
    assert fairweight(tmp_path, *quick, "--epochs", "2").returncode == 2


def test_json_is_the_only_output(desk):
    done = fairweight(desk, "train", *TABLE, "--out", "run", "--epochs", "8", "--json")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["metrics"]["accuracy"] == json.loads((desk / "run" / "metrics.json").read_text())["accuracy"]
    numbers = found["differences"]["numbers"]["tprd"]
    assert numbers["difference"] == pytest.approx(numbers["after"] - numbers["before"])
    assert isinstance(numbers["larger_than_interval"], bool)
    assert found["differences"]["sentence"].endswith(".")


def test_without_a_baseline_and_with_a_folder_of_its_own(desk):
    done = fairweight(desk, "train", *TABLE, "--epochs", "1", "--no-baseline")
    assert done.returncode == 0, done.stderr
    (folder,) = (desk / "runs").iterdir()
    assert re.fullmatch(r"people(\.csv)?_forml_[0-9a-f]{6}", folder.name)
    assert not (folder / "uniform").exists()
    assert "beside plain training" not in done.stdout
    assert "No verdict: " in done.stdout


def test_options_reach_the_run(desk):
    words = ("--method", "forml", "--objective", "mean + variance", "--option", "tie=label", "--option",
             "score_step.rate=0.2", "--batch-size", "50", "--lr", "0.01", "--optimizer", "sgd", "--hidden", "8",
             "--per-cell", "4", "--exemplar-size", "12", "--group", "sex,race", "--drop", "job", "--limit", "300",
             "--corrupt", "uniform-flips:fraction=0.1", "--weight-decay", "0.1", "--patience", "0", "--seed",
             "3")  # fmt: skip
    done = fairweight(
        desk, "train", "people.csv", "--label", "income", *words, "--epochs", "1", "--out", "all", "--json"
    )
    assert done.returncode == 0, done.stderr
    spec = json.loads((desk / "all" / "run.json").read_text())["spec"]
    assert spec["method_options"] == {
        "objective": "mean + variance",
        "tie": "label",
        "score_step": {"name": "adaptive", "rate": 0.2},
    }
    assert spec["network"] == {"name": "mlp", "hidden": [8]}
    assert (spec["batch_size"], spec["lr"], spec["optimizer"], spec["per_cell"]) == (50, 0.01, "sgd", 4)
    assert (spec["weight_decay"], spec["early_stopping"], spec["seed"]) == (0.1, {}, 3)
    data = json.loads((desk / "all" / "run.json").read_text())["data"]
    assert data["corruptions"] == [{"kind": "uniform-flips", "fraction": 0.1}]
    assert data["group"] == ["sex", "race"]
    assert "true_label" in RunFolder(desk / "all").read_weights()


def test_methods_without_scores_train_too(desk):
    done = fairweight(desk, "train", *TABLE, "--method", "group-dro", "--epochs", "1", "--out", "dro", "--json")
    assert done.returncode == 0, done.stderr
    done = fairweight(desk, "train", *TABLE, "--method", "uniform", "--epochs", "1", "--out", "plain")
    assert done.returncode == 0, done.stderr
    assert "beside plain training" not in done.stdout
    assert "No verdict: " in done.stdout


def test_the_network_may_be_ones_own(desk):
    people(300)[["age", "hours", "sex", "income"]].to_csv(desk / "two.csv", index=False)
    sizes = {"two": "Linear(2, 2)", "three": "Linear(2, 3)", "none": "ReLU()"}
    sizes |= {"nan": "Sequential(nn.Linear(2, 2), nn.Threshold(float('inf'), float('nan')))"}
    nets = [f"{name}():\n    return nn.{net}" for name, net in sizes.items()]
    (desk / "net.py").write_text("from torch import nn\n" + "".join(f"\n\ndef {net}\n" for net in nets))
    words = ("train", "two.csv", *TABLE[1:], "--epochs", "1", "--no-baseline")
    assert fairweight(desk, *words, "--network", "net.py:two", "--out", "own").returncode == 0
    repeated = ("--network", "net.py:two")  # a run folder's code is imported only where the user names it, too
    assert fairweight(desk, "predict", "own", "two.csv", "--out", "own.csv", *repeated).returncode == 0
    done = fairweight(desk, *words, "--network", "net.py:three", "--out", "bad")
    assert "net.py:three scores 3 classes and the label has 2" in done.stderr
    done = fairweight(desk, *words, "--network", "net.py:none", "--out", "bad")
    assert done.returncode == 2
    assert "no parameters to train" in done.stderr
    done = fairweight(desk, "train", *TABLE, "--network", "net.py:two", "--out", "bad")
    assert re.search(r"net.py:two does not take inputs of shape \(\d+,\)", done.stderr)
    done = fairweight(desk, "train", "two.csv", *TABLE[1:7], "--network", "net.py:nan", "--out", "bad")
    assert "samples is not finite" in done.stderr
    assert not (desk / "bad").exists()


def test_predict_gives_what_the_run_said_of_its_test_rows(desk):
    done = fairweight(desk, "predict", "run", "people.csv", "--out", "p.csv")
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(desk / "p.csv")
    assert list(found) == ["row", "predicted", "probability_low", "probability_high"]
    assert len(found) == 1200
    np.testing.assert_allclose(found["probability_low"] + found["probability_high"], 1.0, atol=2e-6)
    kept = RunFolder(desk / "run").read_predictions()
    again = found["predicted"].to_numpy()[kept["row"].to_numpy()]
    assert (again == kept["predicted"].astype(str)).all()
    assert re.search(r"^F +\d+", done.stdout, re.MULTILINE), "the table by group, where labels are known"


def test_predict_names_the_group_and_prints_labels_as_json(desk):
    table = fairweight(desk, "predict", "run", "people.csv", "--out", "p.csv").stdout
    assert re.search(r"^sex +n +positives", table, re.MULTILINE)
    found = json.loads(fairweight(desk, "predict", "run", "people.csv", "--json").stdout)
    assert set(found["predicted"]) == {"high", "low"}
    assert len(found["predicted"]) == found["rows"]
    assert "predicted" not in json.loads(
        fairweight(desk, "predict", "run", "people.csv", "--json", "--out", "p.csv").stdout
    )


def test_predict_names_image_files(tmp_path):
    from PIL import Image

    for place in range(40):
        path = tmp_path / "all" / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 40 + 150 * (place % 2)).save(path)
    words = ["train", "all", "--epochs", "1", "--no-baseline", "--out", "run"]
    assert fairweight(tmp_path, *words).returncode == 0
    assert fairweight(tmp_path, "predict", "run", "all", "--out", "p.csv").returncode == 0
    assert set(pd.read_csv(tmp_path / "p.csv")["file"]) == {f"{'ab'[k % 2]}/{k}.png" for k in range(40)}
    (tmp_path / "bad.png").write_text("no image")
    refused = fairweight(tmp_path, "predict", "run", "bad.png")
    assert refused.returncode == 2
    assert "--unreadable" not in refused.stderr, "predict has no such flag"
    Image.new("L", (9, 8)).save(tmp_path / "all" / "a" / "wide.png")
    refused = fairweight(tmp_path, "predict", "run", "all")
    assert refused.returncode == 2
    assert "wide.png is 8x9 and the first image 8x8; resize them to one size, such as 8." in refused.stderr
    (tmp_path / "list.csv").write_text("photo;label\nall/a/0.png;a\nall/b/1.png;b\n")
    assert "--file-column" in fairweight(tmp_path, "predict", "run", "list.csv").stderr
    words = ("predict", "run", "list.csv", "--delimiter", "semicolon", "--file-column", "photo", "--out", "p.csv")
    assert fairweight(tmp_path, *words).returncode == 0
    assert list(pd.read_csv(tmp_path / "p.csv")["file"]) == ["all/a/0.png", "all/b/1.png"]


def test_predict_reads_a_file_that_is_written_otherwise_than_that_of_training(desk):
    people(20, seed=5).to_csv(desk / "commas.csv", index=False)
    people(20, seed=5).to_csv(desk / "semicolons.csv", index=False, sep=";", encoding="utf-16")
    expected = fairweight(desk, "predict", "run", "commas.csv").stdout
    seen = fairweight(desk, "predict", "run", "semicolons.csv")
    assert seen.stdout == expected
    assert "semicolons.csv is separated by ';' (semicolon), and was read so." in seen.stderr
    assert "semicolons.csv is written in utf-16, by its first two bytes, and was read so." in seen.stderr
    told = fairweight(desk, "predict", "run", "semicolons.csv", "--encoding", "utf-16", "--delimiter", ";")
    assert told.stdout == expected
    assert "was read so" not in told.stderr


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [("income", "middling", "1 of 20 rows have no label 'income'"), ("sex", None, "No row has a group 'sex'")],
)
def test_predict_says_why_labelled_rows_are_not_counted(desk, column, value, sentence):
    strange = people(20, seed=5)
    strange[column] = [value, *strange[column][1:]] if value else "?"
    strange.to_csv(desk / "strange.csv", index=False)
    done = fairweight(desk, "predict", "run", "strange.csv")
    assert done.returncode == 0, done.stderr
    assert sentence in done.stderr
    assert len(done.stdout.splitlines()) == 21


def test_predict_needs_neither_label_nor_group_and_prints_csv(desk):
    people(20, seed=5).drop(columns=["income", "sex"]).to_csv(desk / "new.csv", index=False)
    done = fairweight(desk, "predict", "run", "new.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("row,predicted,probability_")
    assert fairweight(desk, "predict", "run", "new.csv", "--out", "p.parquet").returncode == 0
    assert len(pd.read_parquet(desk / "p.parquet")) == 20


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "lacks.csv"), "the rows of lacks.csv lack the column 'age' that the model was trained on"),
        (("run", "nobody.csv"), "no file 'nobody.csv'"),
        (("run", "people.csv", "--file-column", "age"), "was trained on a table"),
        (("nowhere", "people.csv"), "give the folder of a finished run"),
        (("run", "people.csv", "--out", "run"), "is a folder"),
        (("killed", "people.csv"), "has not come to its end"),
    ],
)
def test_predict_refuses_in_one_sentence(desk, words, sentence):
    people(20).drop(columns="age").to_csv(desk / "lacks.csv", index=False)
    (desk / "killed").mkdir(exist_ok=True)
    (desk / "killed" / "run.json").write_text((desk / "run" / "run.json").read_text())
    done = fairweight(desk, "predict", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
