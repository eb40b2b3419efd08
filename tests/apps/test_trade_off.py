"""A sweep of strength: chosen on validation by the stated rule, never on test."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.command import fairweight
from tests.tables import people

from fairweight.apps.judge import Goal, Judgement, Score, choose, near_constant
from fairweight.apps.trade_off import points, scaled, trade_off
from fairweight.apps.verdict import in_points
from fairweight.errors import BadInput
from fairweight.metrics import Estimate
from fairweight.objectives._from_text import objective_from
from fairweight.report.front import judged_dots

TABLE = ("people.csv", "--label", "income", "--group", "sex", "--method", "forml", "--epochs", "3")


@pytest.mark.parametrize(
    ("objective", "strength", "expected"),
    [
        ("mean + 0.3 * equal-odds", 1.0, "mean + 0.3 * equal-odds"),
        ("mean + 0.3 * equal-odds", 10.0, "mean + 3 * equal-odds"),
        ("variance", 0.5, "mean + 0.5 * variance"),
        ("2 * mean + variance + 0.5 * worst-group", 2.0, "2 * mean + 2 * variance + worst-group"),
    ],
)
def test_strength_multiplies_what_compares_groups(objective, strength, expected):
    assert scaled(objective, strength) == expected


def test_a_large_strength_can_be_read_again():
    found = scaled("mean + 0.5 * variance", 1e7)
    assert repr(objective_from(found)) == repr(objective_from("mean + 5000000 * variance"))
    assert scaled(found, 1.0) == found


def test_an_objective_without_groups_has_no_strength():
    with pytest.raises(BadInput, match="no strength"):
        scaled("mean", 2.0)


def judgement(accuracy: float, gap: float, plain: float = 0.8, give_up: float = 1.0, share: float = 0.3) -> Judgement:
    score = Score(accuracy, accuracy, share, gap)
    within = 100 * (plain - accuracy) <= give_up + 1e-9
    return Judgement(score, (0.0, 0.0, 0.0), near_constant(score, Score(plain, plain, 0.3, 0.2), 12), within)


def chosen(*found: Judgement) -> int:
    return choose(found[0].score, found, Goal(None), sure=False) or 0


@pytest.mark.parametrize(("give_up", "place"), [(0, 1), (1, 2), (5, 3), (100, 3)])
def test_the_rule(give_up, place):
    points = ((0.80, 0.20), (0.81, 0.15), (0.792, 0.05), (0.785, 0.01), (0.7, 0.3))
    assert chosen(*(judgement(*point, give_up=give_up) for point in points)) == place


def test_plain_training_wins_where_no_point_keeps_accuracy_or_is_far_from_constant():
    assert chosen(judgement(0.8, 0.2), judgement(0.5, 0.0)) == 0
    assert chosen(judgement(0.8, math.nan), judgement(0.5, 0.0)) == 0
    assert chosen(judgement(0.8, 0.2), judgement(0.8, 0.0, share=0.0)) == 0


def test_a_gap_that_is_not_known_is_on_no_front_and_strict_json():
    """On validation rows of one group alone."""
    scores = {"a": (0.8, math.nan), "b": (0.7, math.nan), "c": (0.7, 0.1)}
    told = {
        name: Judgement(Score(a, a, 0.3, g), (math.nan,) * 3, False, True).to_dict() for name, (a, g) in scores.items()
    }
    candidates = [{"name": name, "learner": "network", **one} for name, one in told.items()]
    judged = {"reference": "a", "chosen": "c", "candidates": candidates}
    found = points(dict.fromkeys((0, 1, 3), Path("x")), judged, judged_dots(judged, lambda one: ({}, "")))
    assert [point["on_front"] for point in found] == [False, False, True]
    assert json.loads(json.dumps(found, allow_nan=False))[0]["validation"]["gap"] is None


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    people(1200).to_csv(folder / "people.csv", index=False)
    done = fairweight(folder, "train", *TABLE, "--trade-off", "--strengths", "0.3,3", "--out", "sweep")
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_a_page_a_table_and_the_chosen_run(swept):
    folder, done = swept
    page = (folder / "sweep" / "trade_off.html").read_text()
    found = json.loads((folder / "sweep" / "trade_off.json").read_text())
    assert page.count('class="dot') == len(found["points"])
    assert "--method forml --objective" in page.replace("</span> <span>", " ")
    assert "--group sex --epochs 3 --method uniform" in page.replace("</span> <span>", " ")  # every flag that counts
    assert "--strengths" not in page
    assert [p["strength"] for p in found["points"]] == [0, 0.3, 3]
    (chosen,) = [p for p in found["points"] if p["chosen"]]
    least = found["points"][0]["validation"]["accuracy"] - 0.01
    allowed = [p for p in found["points"] if p["validation"]["accuracy"] >= least]
    assert chosen["validation"]["gap"] == min(p["validation"]["gap"] for p in allowed)
    # The numbers on test are those of the chosen run, and no other's are told.
    metrics = json.loads((folder / chosen["folder"] / "metrics.json").read_text())
    written = json.loads((folder / "sweep" / "metrics.json").read_text())
    assert metrics.items() <= written.items()
    said = {"helps": "Helps", "no-effect": "No clear effect", "worse": "Worse"}
    assert said[written["verdict"]] in done.stdout  # so that the audit says what the training said
    assert written["sentence"] == found["chosen"]["sentence"]
    assert found["chosen"]["metrics"]["tprd"] == metrics["tprd"]
    assert "test" not in json.dumps([p["validation"] for p in found["points"]])
    assert "Chosen on validation" in done.stdout
    assert "strength 0.3" in done.stdout
    assert fairweight(folder, "predict", "sweep", "people.csv", "--out", "p.csv").returncode == 0


@pytest.mark.slow
def test_a_sweep_goes_on_and_does_not_mix_with_a_run(swept):
    folder, _ = swept
    before = {p: p.stat().st_mtime_ns for p in (folder / "sweep").glob("*/metrics.json")}
    (folder / "sweep" / "strength_3" / "metrics.json").unlink()  # as if it had been killed
    done = fairweight(folder, "train", *TABLE, "--trade-off", "--strengths", "0.3,3", "--out", "sweep", "--json")
    assert done.returncode == 0, done.stderr
    after = {p: p.stat().st_mtime_ns for p in (folder / "sweep").glob("*/metrics.json")}
    assert [p.parent.name for p in after if after[p] != before[p]] == ["strength_3"]
    assert json.loads(done.stdout)["rule"].startswith("Chosen on validation")
    done = fairweight(folder, "train", *TABLE, "--out", "sweep")
    assert done.returncode == 2
    assert "--fresh" in done.stderr
    done = fairweight(folder, "train", *TABLE, "--out", "sweep", "--fresh", "--no-baseline")
    assert done.returncode == 0, done.stderr
    assert not (folder / "sweep" / "trade_off.json").exists()


def test_a_sweep_then_a_fresh_run_that_fails_does_not_lock_the_folder(tmp_path):
    people(200).to_csv(tmp_path / "people.csv", index=False)
    words = ("train", *TABLE, "--out", "sweep")
    done = fairweight(tmp_path, *words, "--trade-off", "--strengths", "0.3")
    assert done.returncode == 0, done.stderr
    done = fairweight(tmp_path, *words, "--fresh", "--lr", "1e30", "--optimizer", "sgd")
    assert done.returncode == 2
    assert not list((tmp_path / "sweep").glob("strength_*"))
    done = fairweight(tmp_path, *words, "--no-baseline")
    assert done.returncode == 0, done.stderr


def test_empty_folders_of_a_sweep_are_nothing_to_lose(tmp_path):
    people(200).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "sweep" / "strength_3").mkdir(parents=True)
    done = fairweight(tmp_path, "train", *TABLE, "--out", "sweep", "--no-baseline")
    assert done.returncode == 0, done.stderr
    (tmp_path / "mine" / "strength_3").mkdir(parents=True)
    (tmp_path / "mine" / "strength_3" / "thesis.txt").write_text("words")
    done = fairweight(tmp_path, "train", *TABLE, "--out", "mine", "--fresh")
    assert done.returncode == 2
    assert (tmp_path / "mine" / "strength_3" / "thesis.txt").read_text() == "words"


@pytest.mark.parametrize("give_up", [-0.03, 101.0, float("nan")])
def test_what_may_be_given_up_is_in_points(give_up, tmp_path):
    with pytest.raises(BadInput, match="from 0 to 100"):
        trade_off(SimpleNamespace(dataset=None, goal=Goal(None)), tmp_path / "out", {}, give_up)
    assert not (tmp_path / "out").exists()


def test_numbers_carry_their_intervals():
    assert in_points(Estimate(0.5, 0.4, 0.6, 10)) == "50.00 [40.0, 60.0]"
