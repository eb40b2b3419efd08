"""`fairweight refit`: once more with the weights that a run has learned, and its exemplars."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from tests.command import fairweight
from tests.tables import people

from fairweight.runs.folder import RunFolder

TABLE = (
    "people.csv",
    "--label",
    "income",
    "--group",
    "sex",
    "--positive",
    "high",
    "--method",
    "forml",
    "--epochs",
    "4",
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refit")
    people(900).to_csv(folder / "people.csv", index=False)
    done = fairweight(folder, "train", *TABLE, "--out", "run")
    assert done.returncode == 0, done.stderr
    again = fairweight(folder, "refit", "run")
    assert again.returncode == 0, again.stderr
    (folder / "screen.txt").write_text(again.stdout)
    (folder / "opening.txt").write_text(again.stderr)
    return folder


def weights_of(folder, *names):
    return RunFolder(folder.joinpath(*names)).read_weights().set_index("row")


@pytest.mark.slow
def test_all_rows_are_trained_on_and_keep_their_weights(desk):
    first, second = weights_of(desk, "run"), weights_of(desk, "run", "refit")
    held = second.index.difference(first.index)
    assert set(first.index) < set(second.index)
    exemplars = json.loads((desk / "run" / "run.json").read_text())["data"]["notes"]
    assert any(f"Exemplar set: {len(held)} rows held out" in note for note in exemplars)
    ratio = second.loc[first.index, "weight"] / first["weight"]
    assert ratio.std() / ratio.mean() < 1e-5  # on a common scale: the second has mean 1 over more rows
    cells = first.groupby([first["label"].astype(str), first["group"].astype(str)])["weight"].mean() * ratio.mean()
    for row in held:
        cell = (str(second.loc[row, "label"]), str(second.loc[row, "group"]))
        assert second.loc[row, "weight"] == pytest.approx(cells[cell], rel=1e-4)


def test_the_test_rows_are_the_same_and_plain_training_stands_beside(desk):
    tests = [pd.read_parquet(desk / "run" / part / "predictions.parquet") for part in ("", "refit", "refit/uniform")]
    assert tests[0]["row"].tolist() == tests[1]["row"].tolist() == tests[2]["row"].tolist()
    plain = weights_of(desk, "run", "refit", "uniform")
    assert set(plain.index) == set(weights_of(desk, "run", "refit").index)


def test_what_is_said(desk):
    opening, screen = ((desk / name).read_text() for name in ("opening.txt", "screen.txt"))
    assert "given, the weights of weights.parquet" in opening
    assert "at every step" not in opening  # no exemplar batch is drawn
    before = json.loads((desk / "run" / "metrics.json").read_text())
    assert f"run: TPRD {100 * before['tprd']:.2f}, accuracy {100 * before['accuracy']:.2f} points." in screen
    assert "Run folder: run/refit" in screen
    assert "by refit beside plain training" in screen.replace("\n", " ")


@pytest.mark.slow
def test_a_finished_one_is_found_another_seed_is_another_run_and_an_audit_reads_it(desk):
    again = fairweight(desk, "refit", "run", "--json")
    assert json.loads(again.stdout)["reused"]
    other = fairweight(desk, "refit", "run", "--seed", "5", "--out", "elsewhere/second", "--no-baseline", "--json")
    assert other.returncode == 0, other.stderr
    spec = json.loads(other.stdout)["spec"]
    assert (spec["seed"], spec["data_seed"]) == (5, 0)
    assert spec["weights"]["file"] == "../run/weights.parquet"  # no folder of this machine
    refused = fairweight(desk, "refit", "run", "--seed", "5")
    assert refused.returncode == 2
    assert "--fresh" in refused.stderr
    audited = fairweight(desk, "audit", "run/refit")
    assert audited.returncode == 0, audited.stderr
    assert "Training with given weights learns no score per sample" in " ".join(audited.stdout.split())
    page = (desk / "run" / "refit" / "report.html").read_text()
    assert "those of weights.parquet" in page
    assert "Weights are fixed before training." in page
    assert "starts with weight 1" not in page
    assert "Weights are fixed before training: samples of" in page  # the mark of a word follows
    assert "those of weights.parquet" in (desk / "run" / "refit" / "MODEL_CARD.md").read_text()


def test_training_the_first_run_afresh_takes_the_second_away(desk, tmp_path):
    shutil.copytree(desk / "run", tmp_path / "run")
    shutil.copy(desk / "people.csv", tmp_path)
    done = fairweight(tmp_path, "train", *TABLE, "--out", "run", "--seed", "3", "--fresh", "--no-baseline")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "refit").exists()


def test_what_has_no_weights_or_has_changed_is_refused(desk, tmp_path):
    plain = fairweight(desk, "refit", "run/uniform")
    assert plain.returncode == 2
    assert "run/uniform holds uniform, which weighs all samples alike; give a run of forml" in plain.stderr
    shutil.copytree(desk / "run" / "uniform", tmp_path / "kept")  # as where plain training was the better of two
    shutil.copytree(desk / "run", tmp_path / "kept" / "forml")
    assert f"refit {Path('kept', 'forml')}, which has weights" in fairweight(tmp_path, "refit", "kept").stderr
    assert fairweight(desk, "refit", "nowhere").returncode == 2
    shutil.copytree(desk / "run", tmp_path / "run", ignore=shutil.ignore_patterns("refit"))
    table = people(900)
    table.loc[:300, "income"] = "low"
    table.to_csv(tmp_path / "people.csv", index=False)
    changed = fairweight(tmp_path, "refit", "run")
    assert changed.returncode == 2
    assert "has changed since" in changed.stderr
    assert not (tmp_path / "run" / "refit").exists()


@pytest.mark.slow
def test_plain_training_that_was_kept_among_candidates_is_refused(desk):
    words = (*TABLE[:7], "--learner", "linear", "--candidates", "reweighing", "--bound", "100", "--out", "kept_plain")
    assert fairweight(desk, "train", *words).returncode == 0
    refused = fairweight(desk, "refit", "kept_plain")
    assert refused.returncode == 2
    assert "kept_plain holds uniform, which weighs all samples alike" in refused.stderr
    assert not (desk / "kept_plain" / "refit").exists()


def test_wrong_labels_that_were_made_stay_where_they_are(desk):
    words = ("--corrupt", "one-class:label=low,fraction=0.2", "--no-baseline")
    assert fairweight(desk, "train", *TABLE, *words, "--out", "wrong").returncode == 0
    done = fairweight(desk, "refit", "wrong", "--no-baseline")
    assert done.returncode == 0, done.stderr
    first, second = weights_of(desk, "wrong"), weights_of(desk, "wrong", "refit")
    assert first.index.tolist() == second.index.tolist()
    assert first["label"].astype(str).tolist() == second["label"].astype(str).tolist()


def test_the_run_itself_is_never_overwritten(desk, tmp_path):
    shutil.copytree(desk / "run", tmp_path / "run", ignore=shutil.ignore_patterns("refit", "uniform"))
    shutil.copytree(tmp_path / "run", tmp_path / "run" / "refit")
    shutil.copy(desk / "people.csv", tmp_path)
    kept = (tmp_path / "run" / "weights.parquet").read_bytes()
    for run, out in (("run", "run"), ("run/refit", "run"), ("run", ".")):
        refused = fairweight(tmp_path, "refit", run, "--out", out, "--fresh")
        assert refused.returncode == 2
        assert f"--out {out} is the folder of the run itself or holds it" in refused.stderr
    for place in ("run", "run/refit"):
        assert (tmp_path / place / "weights.parquet").read_bytes() == kept


@pytest.mark.slow
def test_out_may_be_the_folder_one_stands_in_or_a_link(desk, tmp_path):
    (tmp_path / "deep" / "real").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/real")
    (tmp_path / "here").mkdir()
    shutil.copytree(desk / "run", tmp_path / "run", ignore=shutil.ignore_patterns("refit", "uniform"))
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["spec"]["source"] = str(desk / "people.csv")
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    RunFolder(tmp_path / "run").seal()
    for where, run, out in (
        (tmp_path / "here", "../run", "."),
        (tmp_path, "run", "link"),
        (tmp_path, "run", "new/x/y"),
    ):
        done = fairweight(where, "refit", run, "--out", out, "--no-baseline", "--json")
        assert done.returncode == 0, done.stderr
        again = fairweight(where, "refit", run, "--out", out, "--no-baseline", "--json")
        assert json.loads(again.stdout)["reused"]


def test_a_run_that_was_damaged_is_refused_before_anything_is_written(desk, tmp_path):
    shutil.copy(desk / "people.csv", tmp_path)
    for name, content in (("weights.parquet", "x"), ("metrics.json", "{}"), ("run.json", "{}"), ("run.json", "[1]")):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(desk / "run", tmp_path / "run", ignore=shutil.ignore_patterns("refit", "uniform"))
        (tmp_path / "run" / name).write_text(content)
        refused = fairweight(tmp_path, "refit", "run")
        assert refused.returncode == 2
        assert name in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not (tmp_path / "run" / "refit").exists()


def test_other_inputs_are_other_data_though_labels_are_the_same(desk, tmp_path):
    shutil.copytree(desk / "run", tmp_path / "run", ignore=shutil.ignore_patterns("refit", "uniform"))
    people(900).assign(age=lambda table: table["age"] + 1).to_csv(tmp_path / "people.csv", index=False)
    refused = fairweight(tmp_path, "refit", "run")
    assert refused.returncode == 2
    assert "the data has changed since" in refused.stderr


@pytest.mark.slow
def test_exemplars_that_a_column_names_are_trained_on_and_others_are_told(desk):
    table = people(900)
    table["part"] = ["train", "train", "test", "exemplar", "validation"] * 180
    table.to_csv(desk / "parts.csv", index=False)
    words = ("--label", "income", "--group", "sex", "--epochs", "2", "--no-baseline")
    assert fairweight(desk, "train", "parts.csv", "--split-column", "part", *words, "--out", "parts").returncode == 0
    done = fairweight(desk, "refit", "parts", "--no-baseline")
    assert done.returncode == 0, done.stderr
    assert weights_of(desk, "parts", "refit").index.tolist() == [row for row in range(900) if row % 5 in (0, 1, 3)]
    assert fairweight(desk, "train", *TABLE, "--exemplars", "validation", *words[-1:], "--out", "held").returncode == 0
    told = fairweight(desk, "refit", "held", "--no-baseline")
    assert "No exemplar is added to the rows of the run: they are validation rows" in told.stderr
    notes = json.loads((desk / "held" / "refit" / "run.json").read_text())["data"]["notes"]
    assert notes[-1].startswith("No exemplar is added")
    assert weights_of(desk, "held").index.tolist() == weights_of(desk, "held", "refit").index.tolist()


def test_training_afresh_takes_every_second_training_away(desk, tmp_path):
    shutil.copy(desk / "people.csv", tmp_path)
    inner = ("refit", "refit/uniform", "refit/refit", "refit/refit/uniform")
    for name in ("", *inner):
        shutil.copytree(desk / "run" / "uniform", tmp_path / "run" / name, dirs_exist_ok=True)
    done = fairweight(tmp_path, "train", *TABLE, "--out", "run", "--seed", "3", "--fresh", "--no-baseline")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "refit").exists()


@pytest.mark.slow
def test_a_damaged_run_is_named_and_one_beside_is_passed_over(desk, tmp_path):
    shutil.copytree(desk / "run", tmp_path / "run")
    shutil.copytree(desk / "run", tmp_path / "damaged")
    shutil.copy(desk / "people.csv", tmp_path)
    (tmp_path / "damaged" / "run.json").write_text("{}")
    RunFolder(tmp_path / "damaged").seal()
    for words in (("refit",), ("audit",), ("predict",)):
        more = ("people.csv",) if words == ("predict",) else ()
        done = fairweight(tmp_path, *words, "damaged", *more)
        assert done.returncode == 2
        assert "run.json is not as a run writes it" in done.stderr
    assert fairweight(tmp_path, "audit", "run/refit").returncode == 0
    assert fairweight(tmp_path, "audit", "run").returncode == 0
