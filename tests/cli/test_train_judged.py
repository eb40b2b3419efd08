"""`fairweight train` without a method: the best of many beside plain training, and never a worse one."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.command import fairweight
from tests.tables import people

from fairweight.runs.folder import RunFolder

TABLE = ("people.csv", "--label", "income", "--group", "sex", "--positive", "high", "--learner", "trees")
FIELDS = (
    "verdict", "chosen", "kept_epoch", "criterion", "gap_before", "gap_after", "accuracy_before", "accuracy_after",
)  # fmt: skip


def crowd(rows: int, seed: int) -> pd.DataFrame:
    """People whose club tells their sex nine times in ten, and one of them is seldom paid well."""
    frame = people(rows, seed)
    draw = np.random.default_rng(seed)
    other = np.where(frame["sex"] == "F", "M", "F")
    score = (frame["age"] - 50) / 20 + 2 * (frame["sex"] == "M") + draw.normal(0, 1.2, rows)
    income = np.where(score > 1.2, "high", "low")
    return frame.assign(club=np.where(draw.random(rows) < 0.9, frame["sex"], other), income=income)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    crowd(3000, 1).to_csv(folder / "people.csv", index=False)
    crowd(200, 2).to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(desk):
    done = fairweight(desk, "train", *TABLE, "--budget", "3", "--out", "run")
    assert done.returncode == 0, done.stderr
    return done, RunFolder(desk / "run")


@pytest.mark.slow
def test_the_verdict_stands_in_the_first_line_and_in_metrics(run):
    done, folder = run
    metrics = folder.read("metrics.json")
    assert set(FIELDS) <= set(metrics)
    assert metrics["verdict"] == "helps"
    assert done.stdout.lstrip().startswith("Helps: equal-opportunity gap")
    assert metrics["gap_after"]["value"] < 0.6 * metrics["gap_before"]["value"]
    assert metrics["accuracy_after"] > metrics["accuracy_before"] - 0.04
    assert metrics["tprd"] == pytest.approx(metrics["gap_after"]["value"])
    judged = metrics["judged"]
    assert {one["name"] for one in judged["candidates"]} >= {"plain", "multipliers-1", "reweighing-1", "forml-cells"}
    assert judged["rows"] == 2400
    plain = RunFolder(folder.path / "uniform").read("metrics.json")
    assert plain["tprd"] == pytest.approx(metrics["gap_before"]["value"])


@pytest.mark.slow
def test_weights_are_those_of_the_model_and_of_all_rows_that_are_not_for_test(run):
    _, folder = run
    weights = folder.read_weights()
    assert len(weights) == 2400
    assert weights["weight"].mean() == pytest.approx(1)
    assert weights["weight"].nunique() > 1
    assert set(weights["row"]).isdisjoint(folder.read_predictions()["row"])


@pytest.mark.slow
def test_predict_audit_refit_and_the_same_command_again_work_on_it(run, desk):
    _, folder = run
    assert fairweight(desk, "predict", "run", "new.csv", "--out", "new.parquet").returncode == 0
    assert len(pd.read_parquet(desk / "new.parquet")) == 200
    done = fairweight(desk, "audit", "run")
    assert done.returncode == 0, done.stderr
    assert "Helps: equal-opportunity gap" in done.stdout
    assert "helps" in (folder.path / "MODEL_CARD.md").read_text()
    command = "fairweight train people.csv --label income --group sex --positive high --budget 3 --learner trees"
    page = re.sub("</?span>", "", (folder.path / "report.html").read_text())
    assert command in page  # all that was said, without where it lay
    said = "fairweight train people.csv --label income --group sex --positive high --learner trees --budget 3"
    assert said in page
    assert "choose it with --positive." in page
    assert "The chosen model was trained on all 2,400 rows but those of test." in page
    assert "LabelBias" not in page  # the candidate's name is what its reader knows
    change = folder.read("metrics.json")["gap_change"]
    assert (
        page.count("[{:+.1f}, {:+.1f}]".format(*(100 * change[end] for end in ("low", "high"))).replace("-", "−")) > 1
    )
    done = fairweight(desk, "refit", "run", "--no-baseline")
    assert done.returncode == 0, done.stderr
    again = fairweight(desk, "train", *TABLE, "--budget", "3", "--out", "run")
    assert again.returncode == 0, again.stderr
    assert "found finished" in again.stdout


@pytest.mark.slow
def test_thresholds_by_group_need_the_group_and_close_the_gap(desk):
    words = (*TABLE, "--candidates", "plain", "--groups-at-prediction", "--budget", "2")
    done = fairweight(desk, "train", *words, "--out", "by_group", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["chosen"] in [f"thresholds-{part} (trees)" for part in ("0.25", "0.5", "0.75", "1")]
    assert found["verdict"] == "helps"
    pd.read_csv(desk / "new.csv").drop(columns="sex").to_csv(desk / "blind.csv", index=False)
    assert fairweight(desk, "predict", "by_group", "new.csv", "--out", "n.csv").returncode == 0
    refused = fairweight(desk, "predict", "by_group", "blind.csv", "--out", "n.csv")
    assert refused.returncode == 2
    assert "decides by group" in refused.stderr


@pytest.mark.slow
def test_where_nothing_helps_plain_training_is_handed_over_and_said_first(desk):
    frame = people(400)
    frame.assign(income=np.where(np.random.default_rng(0).random(400) < 0.5, "high", "low")).to_csv(
        desk / "noise.csv", index=False
    )
    done = fairweight(desk, "train", "noise.csv", *TABLE[1:], "--candidates", "reweighing", "--out", "noise")
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip().startswith("Nothing beat plain training")
    metrics = RunFolder(desk / "noise").read("metrics.json")
    assert (metrics["verdict"], metrics["chosen"]) == ("no-effect", "plain (trees)")


@pytest.mark.slow
def test_weights_alone_are_written_for_any_trainer(desk):
    words = (*TABLE[:-1], "linear", "--candidates", "reweighing", "--time", "40s")
    done = fairweight(desk, "weights", *words, "--out", "w.parquet", "--json")
    assert done.returncode == 0, done.stderr
    assert list(pd.read_parquet(desk / "w.parquet").columns) == ["row", "label", "group", "weight"]


@pytest.mark.parametrize(
    "words", [("--criterion", "fair"), ("--candidates", "magic"), ("--learner", "forest"), ("--time", "soon")]
)
def test_unknown_names_are_refused_in_one_sentence(words, desk):
    done = fairweight(desk, "train", *TABLE[:-2], *words, "--out", "bad")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (desk / "bad").exists()


@pytest.mark.slow
def test_images_are_judged_by_two_trainings_that_are_never_repeated(tmp_path):
    words = ("train", "digits", "--epochs", "1", "--out", "run")
    first = fairweight(tmp_path, *words)
    assert first.returncode == 0, first.stderr
    metrics = RunFolder(tmp_path / "run").read("metrics.json")
    names = [one["name"] for one in metrics["judged"]["candidates"]]
    assert {"plain training", "forml", "plain training + bias-0.25", "forml + bias-1"} <= set(names)
    assert metrics["chosen"] in names
    assert metrics["calibration"]["after"]["all"]["n"] == metrics["n"]
    assert "judged     beside plain training, on validation rows" in first.stderr
    again = fairweight(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert "found finished" in again.stdout
    assert "epoch 1/1" not in again.stderr
    assert first.stdout.split("\n\n")[0] == again.stdout.split("\n\n")[0]
    assert fairweight(tmp_path, "verify", "run").returncode == 0
