"""An audit of somebody else's predictions."""

import contextlib
import io
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest
from tests.command import fairweight

from fairweight.apps.audit_predictions import audit_predictions
from fairweight.cli import main
from fairweight.errors import BadInput
from fairweight.metrics import group_table


def made(n=400, seed=0):
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, n)
    chance = np.clip(0.3 + 0.4 * label + random.normal(size=n) * 0.2, 0, 1)
    return pd.DataFrame(
        {
            "label": label,
            "chance": chance,
            "prediction": (chance > 0.5).astype(int),
            "group": random.choice(["F", "M"], n),
            "race": random.choice(["x", "y", "z"], n),
        }
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_numbers_are_those_of_the_table(tmp_path, kind):
    frame = made()
    path = tmp_path / f"said.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    done = fairweight(tmp_path, "audit", "--predictions", path, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["page"] == os.path.join("runs", "audit_said", "report.html")  # noqa: PTH118 - as it is printed
    page = (tmp_path / "runs" / "audit_said" / "report.html").read_text()
    assert 'id="samples"' not in page
    metrics = json.loads((tmp_path / "runs" / "audit_said" / "metrics.json").read_text())
    table = group_table(frame["label"], frame["prediction"], frame["group"])
    for name in ("accuracy", "tprd", "max_fnr", "fpr_gap", "equalised_odds_gap"):
        assert metrics[name] == pytest.approx(table.value(name)), name
        low, high = metrics["intervals"][name]
        assert low <= metrics[name] <= high
    assert {group["group"] for group in metrics["groups"]} == {"F", "M"}


def test_groups_cross_columns_are_named_and_probabilities_are_cut(tmp_path):
    frame = made()
    frame.to_csv(tmp_path / "said.csv", index=False)
    audit = audit_predictions(tmp_path / "said.csv", prediction="chance", group="group,race", threshold=0.6)
    table = group_table(frame["label"], (frame["chance"] >= 0.6).astype(int), frame[["group", "race"]])
    assert audit.metrics["tprd"] == pytest.approx(table.tprd)
    assert len(audit.metrics["groups"]) == 6
    assert any("at least 0.6" in note for note in audit.notes)


def test_labels_in_words_and_the_positive_one(tmp_path):
    frame = made().replace({"label": {0: "no", 1: "yes"}, "prediction": {0: "no", 1: "yes"}})
    frame.to_csv(tmp_path / "said.csv", index=False)
    audit = audit_predictions(tmp_path / "said.csv", positive="no")
    swapped = made()
    table = group_table(1 - swapped["label"], 1 - swapped["prediction"], swapped["group"])
    assert audit.metrics["tprd"] == pytest.approx(table.tprd)
    assert audit.metrics["positive"] == "no"


def test_without_a_group_column_labels_are_compared(tmp_path):
    made().drop(columns=["group"]).to_csv(tmp_path / "said.csv", index=False)
    audit = audit_predictions(tmp_path / "said.csv")
    assert audit.by_label
    assert audit.facts["group"] == "the label"


def test_rows_without_a_group_are_left_out_and_counted(tmp_path):
    frame = made()
    frame.loc[:9, "group"] = None
    frame.to_csv(tmp_path / "said.csv", index=False)
    audit = audit_predictions(tmp_path / "said.csv")
    assert audit.metrics["n_missing"] == 10
    assert audit.metrics["n"] == 390


def test_whole_numbers_and_floats_are_the_same_label(tmp_path):
    frame = made()
    frame["prediction"] = frame["prediction"].astype(float)
    frame.to_csv(tmp_path / "said.csv", index=False)
    assert audit_predictions(tmp_path / "said.csv").metrics["accuracy"] == pytest.approx(
        (frame["label"] == frame["prediction"]).mean()
    )


def test_a_predicted_label_that_nobody_has_is_said(tmp_path):
    frame = made()
    frame.loc[0, "prediction"] = 7
    frame.to_csv(tmp_path / "said.csv", index=False)
    assert any("1 predicted labels are nobody's: 7" in note for note in audit_predictions(tmp_path / "said.csv").notes)


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        (lambda f: f.drop(columns=["prediction"]), (), "say which column holds the predictions with --prediction"),
        (lambda f: f.drop(columns=["label"]), (), "say which column holds the labels with --label"),
        (lambda f: f, ("--group", "age"), "there is no column 'age'"),
        (lambda f: f, ("--prediction", "chance"), "holds probabilities, not labels; give --threshold 0.5"),
        (lambda f: f.assign(label=None), (), "400 rows have no 'label'"),
        (lambda f: f.assign(label=1, prediction=1), (), "hold one value alone"),
        (lambda f: f, ("--positive", "maybe"), "is no label; choose from: 0, 1"),
        (lambda f: f.assign(prediction="x"), ("--threshold", "0.5"), "needs probabilities"),
        (lambda f: f.head(0), (), "said.csv"),
        (lambda f: f.assign(label=f["label"] == 1), (), "no prediction in 'prediction' ('0', '1') is a label"),
        (lambda f: f, ("--prediction", "chance", "--threshold", "2"), "--threshold 2 cuts nothing"),
        (lambda f: f, ("--delimiter", ";"), "separated by ',' (comma), not ';'; give its --delimiter"),
        (lambda f: f.assign(group="é"), ("--encoding", "ascii"), "give its --encoding"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, change, words, says):
    change(made()).to_csv(tmp_path / "said.csv", index=False)
    done = fairweight(tmp_path, "audit", "--predictions", "said.csv", *words)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()  # nothing half-written


def test_a_column_may_have_a_comma_or_a_tag_in_its_name(tmp_path):
    names = {"label": 'true "y"', "prediction": "said: <i>", "group": "sex,or not"}
    frame = made().rename(columns=names)
    frame.to_csv(tmp_path / "odd name, 1.csv", index=False)
    frame.to_parquet(tmp_path / "odd name, 1.parquet")
    pages = []
    for kind in ("csv", "parquet"):
        words = ("--label", names["label"], "--prediction", names["prediction"], "--group", names["group"])
        done = fairweight(tmp_path, "audit", "--predictions", f"odd name, 1.{kind}", *words, "--out", kind)
        assert done.returncode == 0, done.stderr
        pages.append((tmp_path / kind / "report.html").read_text().replace(f"1.{kind}", "1"))
    assert pages[0] == pages[1]
    assert "<i>" not in pages[0]


def test_a_file_may_be_written_as_spreadsheets_write_it(tmp_path):
    made().to_csv(tmp_path / "plain.csv", index=False)
    made().to_csv(tmp_path / "sheet.csv", index=False, sep=";", encoding="utf-16")
    words = ("--delimiter", "semicolon", "--encoding", "utf-16", "--out", "page")
    done = fairweight(tmp_path, "audit", "--predictions", "sheet.csv", *words)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "page" / "metrics.json").read_text())
    assert metrics == audit_predictions(tmp_path / "plain.csv").metrics


def test_probabilities_may_have_a_decimal_comma(tmp_path):
    made().to_csv(tmp_path / "plain.csv", index=False)
    made().to_csv(tmp_path / "sheet.csv", index=False, sep=";", decimal=",")
    plain, sheet = (
        audit_predictions(tmp_path / name, prediction="chance", threshold=0.4) for name in ("plain.csv", "sheet.csv")
    )
    assert sheet.metrics == plain.metrics
    with pytest.raises(BadInput, match="holds probabilities"):
        audit_predictions(tmp_path / "sheet.csv", prediction="chance")


def test_groups_that_do_not_differ_are_not_named_against_themselves(tmp_path):
    made().assign(prediction=made()["label"]).to_csv(tmp_path / "said.csv", index=False)
    done = fairweight(tmp_path, "audit", "--predictions", "said.csv")
    assert "The true positive rate is 100.0 % for every group: a gap (TPRD) of 0.0 points" in " ".join(
        done.stdout.split()
    )


def test_letters_that_the_terminal_lacks_are_escaped(tmp_path, monkeypatch):
    made().replace({"group": {"F": "fée"}}).to_csv(tmp_path / "said.csv", index=False)
    monkeypatch.setattr(sys, "argv", ["fairweight", "audit", "--predictions", "said.csv"])
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(terminal), contextlib.suppress(SystemExit):
        main()
    terminal.seek(0)
    assert "f\\xe9e" in terminal.read()


def test_findings_keep_to_a_narrow_terminal(tmp_path, monkeypatch):
    made().to_csv(tmp_path / "said.csv", index=False)
    monkeypatch.setenv("COLUMNS", "40")
    lines = fairweight(tmp_path, "audit", "--predictions", "said.csv").stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Page: ")) <= 40


@pytest.mark.parametrize("out", ["said.csv", "said.csv/below"])
def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, out):
    made().to_csv(tmp_path / "said.csv", index=False)
    done = fairweight(tmp_path, "audit", "--predictions", "said.csv", "--out", out)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fairweight: {out} cannot be made (")
    assert "choose another folder with --out" in done.stderr


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "words"])
def test_an_id_is_no_group_here_as_in_train(tmp_path, numbers):
    frame = made(300)
    frame["id"] = [place + 1000 if numbers else f"p{place}" for place in range(300)]
    frame["income"] = np.where(frame["label"] == 1, "high", "low")
    frame.to_csv(tmp_path / "said.csv", index=False)
    audited = fairweight(tmp_path, "audit", "--predictions", "said.csv", "--group", "id")
    trained = fairweight(tmp_path, "train", "said.csv", "--label", "income", "--group", "id")
    assert (audited.returncode, trained.returncode) == (2, 2)
    assert audited.stderr == trained.stderr
    assert "too many groups" in audited.stderr if numbers else "probably an id" in audited.stderr
    assert not (tmp_path / "runs").exists()


def test_the_question_that_a_refused_group_is_told_to_ask_is_answered(tmp_path):
    frame = made().assign(age=np.arange(400) % 60)
    frame.to_csv(tmp_path / "said.csv", index=False)
    done = fairweight(tmp_path, "audit", "--predictions", "said.csv", "--group", "age>=30", "--json")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "runs" / "audit_said" / "metrics.json").read_text())
    older = frame["age"].ge(30).map({True: "age>=30", False: "age<30"})
    assert {group["group"] for group in metrics["groups"]} == {"age>=30", "age<30"}
    assert metrics["tprd"] == pytest.approx(group_table(frame["label"], frame["prediction"], older).tprd)
    done = fairweight(tmp_path, "audit", "--predictions", "said.csv", "--group", "agee>=30")
    assert done.returncode == 2
    assert "no column 'agee'" in done.stderr
