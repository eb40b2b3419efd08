"""The sets, numbers, methods and record of the judgement benchmark."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.tables import real

from fairweight.metrics import Intervals, group_table


@pytest.fixture
def sets(script):
    return script("judgement_sets")


@pytest.fixture
def numbers(script):
    return script("judgement_numbers")


@pytest.fixture
def peers(script):
    return script("judgement_peers")


@pytest.fixture
def made_up(sets, monkeypatch):
    """A set in which an input tells the label better in one group."""

    def read(data, rng):
        n = 600
        group, label = rng.integers(0, 2, n), rng.integers(0, 2, n)
        x = label + np.where(group == 1, 0.4, 1.2) * rng.normal(size=n)
        return pd.DataFrame({"x": x, "z": rng.normal(size=n), "label": label, "group": np.where(group == 1, "b", "a")})

    monkeypatch.setitem(sets.SETS, "student", sets.Source(read, "made up"))
    return lambda seed=0: sets.task("student", seed, None)


def test_tables_from_outside_are_read_from_a_folder_and_drawn_like_the_others(sets, tmp_path):
    (tmp_path / "outside").mkdir()
    n = 400
    white, passed = np.arange(n) % 2, np.arange(n) % 8 > 0
    frame = pd.DataFrame(
        {"LSAT": np.arange(n), "Race_White": white, "Race_Other": 1 - white, "PF_0": ~passed, "PF_1": passed}
    )
    frame.astype(int).to_csv(tmp_path / "outside" / "law.csv.zip", index=False)
    found = sets.drawn("law", 0, tmp_path)
    assert set(found) == {"LSAT", "label", "group", "part"}, "neither race nor label is an input"
    assert found["label"].mean() == pytest.approx(7 / 8, abs=0.01)
    assert (found["part"] == "test").mean() == pytest.approx(sets.TEST_SHARE, abs=0.01)
    assert {"law", "adult"} <= set(sets.sources())
    assert "law" not in sets.SETS, "the rule was not settled on it"


def test_gaps_are_those_of_the_group_table(numbers):
    import torch

    rng = np.random.default_rng(0)
    y, p, a = rng.integers(0, 2, (3, 500))
    found = numbers.numbers_of(numbers.counts_of(y, p, a))
    table = group_table(*(torch.tensor(v) for v in (y, p, a)), intervals=Intervals(draws=0))
    assert found["accuracy"] == pytest.approx(100 * table.value("accuracy"))
    assert found["gaps"]["equal-opportunity"]["value"] == pytest.approx(100 * table.value("tprd"))
    fpr = 100 * table.value("fpr_gap")
    assert found["gaps"]["equalized-odds"]["value"] == pytest.approx(
        max(fpr, found["gaps"]["equal-opportunity"]["value"])
    )
    chosen = [p[a == g].mean() for g in (0, 1)]
    assert found["gaps"]["demographic-parity"]["value"] == pytest.approx(100 * abs(chosen[0] - chosen[1]))
    for gap in found["gaps"].values():
        assert gap["low"] < gap["high"]


def test_a_gap_of_rates_on_paper(numbers):
    #            group 0: TPR 3/4, FPR 1/4     group 1: TPR 1/2, FPR 0
    counts = np.array([[[3, 1], [1, 3]], [[4, 0], [2, 2]]])
    found = numbers.numbers_of(counts)
    values = {name: gap["value"] for name, gap in found["gaps"].items()}
    assert values["equal-opportunity"] == pytest.approx(25)
    assert values["equalized-odds"] == pytest.approx(25)
    assert values["demographic-parity"] == pytest.approx(25)
    assert values["predictive-parity"] == pytest.approx(25)
    assert values["accuracy-parity"] == pytest.approx(0)
    assert values["worst-group"] == pytest.approx(25)
    assert found["balanced_accuracy"] == pytest.approx(75)
    assert found["positives"] == pytest.approx(100 * 6 / 16)


def test_predicting_nobody_has_no_precision(numbers):
    found = numbers.numbers_of(np.array([[[4, 0], [2, 0]], [[4, 0], [2, 0]]]))
    assert found["gaps"]["predictive-parity"] == {"value": None, "low": None, "high": None}
    assert found["gaps"]["equal-opportunity"]["value"] == 0
    assert found["balanced_accuracy"] == 50


def test_rows_are_drawn_by_the_seed_and_learned_from_once(made_up):
    first, again, other = made_up(3), made_up(3), made_up(4)
    assert first.frame.equals(again.frame)
    assert first.test_rows == again.test_rows != other.test_rows
    parts = first.frame["part"].value_counts()
    assert len(first.fit_labels) == parts["train"]
    assert len(first.test_labels) == parts["test"]
    assert abs(parts["test"] / len(first.frame) - 0.4) < 0.02
    assert first.fit_inputs.shape[1] == 2, "the group and the part are no inputs"


def test_thinning_reaches_the_share_from_either_side(sets):
    frame = pd.DataFrame({"label": [1, 0] * 20_000})
    rng = np.random.default_rng(0)
    assert sets.thinned(frame, 0.06, rng)["label"].mean() == pytest.approx(0.06, abs=0.005)
    kept = sets.thinned(frame, 0.9, rng)
    assert kept["label"].mean() == pytest.approx(0.9, abs=0.005)
    assert kept["label"].sum() == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "compas", "rare", "common", "small"])
def test_real_sets_are_as_described(sets, name):
    folder = real("compas" if name == "compas" else "adult")
    frame = sets.drawn(name, 5, folder, rows=2_000)
    shares = {"adult": 0.24, "compas": 0.47, "rare": 0.06, "common": 0.9, "small": 0.24}
    assert frame["label"].mean() == pytest.approx(shares[name], abs=0.02)
    learn = (frame["part"] == "train").sum()
    assert learn == pytest.approx(1_000 if name == "small" else 2_000, abs=4)


def test_reweighing_makes_label_and_group_independent(peers):
    y, a = np.array([1, 1, 1, 0, 0, 0, 0, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    w = peers.reweighing_weights(y, a)
    rates = [np.average(y[a == g], weights=w[a == g]) for g in (0, 1)]
    assert rates == [pytest.approx(0.5)] * 2
    assert w.sum() == pytest.approx(8)


def test_held_out_rows_are_of_every_cell(peers, made_up):
    task = made_up()
    seen, held = peers.halved(task)
    assert (seen ^ held).all()
    assert held.mean() == pytest.approx(0.3, abs=0.01)
    assert len(set(zip(task.fit_labels[held], task.fit_groups[held], strict=True))) == 4


def test_names_stand_for_several(script, peers):
    names = script("judgement").names_of
    assert names(["all"]) == list(peers.METHODS)
    assert names(["every-ours", "ours", "plain-trees"]) == [*peers.OURS, "plain-trees"]
    assert not set(names(["peers"])) & set(peers.OURS)


def test_a_method_that_fails_is_kept_as_such_and_tried_again(script, peers, made_up, monkeypatch, tmp_path):
    judgement = script("judgement")

    def refuses(task, folder):
        raise peers.Failed("no such option")

    monkeypatch.setitem(peers.METHODS, "ours", peers.Method("ours", refuses))
    run = judgement.measure(made_up(), "ours")
    assert run["failed"] == "Failed: no such option"
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    assert not judgement.done(path)


@pytest.mark.slow
def test_our_command_is_called_as_a_user_calls_it(peers, made_up, tmp_path):
    said = peers.command(("--method", "uniform", "--epochs", "2", "--device", "cpu"), made_up(), tmp_path)
    task = made_up()
    assert len(said) == len(task.test_labels)
    assert (said == task.test_labels).mean() > 0.6
    with pytest.raises(peers.Failed, match="No such option"):
        peers.command(("--nothing-of-the-kind",), made_up(), tmp_path / "..")


def runs_of(judgement, made_up, peers, seeds=(0, 1, 2)):
    return [
        {**judgement.measure(made_up(seed), method), "rows": 8_000}
        for seed in seeds
        for method in ("plain-trees", "plain-logistic", "reweighing-logistic")
    ]


@pytest.mark.slow
def test_a_record_holds_runs_means_and_checks_and_gives_them_back(script, peers, made_up, tmp_path):
    judgement, records, page = script("judgement"), script("judgement_record"), script("judgement_page")
    runs = runs_of(judgement, made_up, peers)
    ours = [{**run, "method": "ours"} for run in runs if run["method"] == "plain-trees"]
    record = records.record_of([*runs, *ours])
    row = record["sets"]["student"]["rows"]["plain-trees"]
    assert row["means"]["accuracy"]["mean"] == pytest.approx(np.mean([r["accuracy"] for r in runs[::3]]), abs=1e-3)
    assert record["checks"]["equal-opportunity"]["ours"] == "ours"
    assert all(p["holds"] for p in record["checks"]["equal-opportunity"]["promises"][:2]), "it is plain training"
    assert any("ours-groups: 0 of 3 seeds" in line for line in record["missing"])
    text = page.table(record)
    assert "| fairweight train |" in text
    assert "ours-groups: 0 of 3 seeds (student)" in text
    assert page.picture(record, "student").axes[0].get_xlabel().startswith("equal-opportunity gap")
    record = json.loads(json.dumps(record))
    records.restore(record, lambda *key: judgement.path_of(tmp_path, *key))
    again = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/*.json"))]
    assert len(again) == 12
    assert records.record_of(again)["sets"] == record["sets"]


def test_the_front_holds_what_no_blind_method_beats(script):
    def row(gap, accuracy, groups=False):
        means = {"accuracy": {"mean": accuracy}, "gaps": {"equal-opportunity": {"mean": gap}}}
        return {"means": means, "groups_at_prediction": groups}

    rows = dict(enumerate([row(5, 86), row(2, 85), row(3, 84), row(1, 90, groups=True), row(5, 85.5), row(9, 87)]))
    found = script("judgement_page").front(rows, "equal-opportunity")
    assert found == [(2, 85), (5, 86), (9, 87)]


@pytest.mark.slow
def test_runs_on_other_test_rows_are_refused(script, peers, made_up):
    judgement, records = script("judgement"), script("judgement_record")
    runs = runs_of(judgement, made_up, peers, seeds=(0,))
    runs[1]["test_rows"] = "others"
    with pytest.raises(ValueError, match="other test rows"):
        records.record_of(runs)
