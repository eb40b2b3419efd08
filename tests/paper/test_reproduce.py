"""A table at its quick size, end to end: rows over seeds, verdicts, what stands beside, and a record."""

import json
import shutil

import pytest

from fairweight.paper._table_text import text_of
from fairweight.paper.plan import planned
from fairweight.paper.reproduce import reproduce
from fairweight.paper.verdict import with_statistics
from fairweight.runs.folder import RunFolder

ROWS = ("uniform-clean", "uniform", "forml-default")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(scope="module")
def record(out):
    return reproduce(planned("mnist", size="quick", seeds=2, rows=ROWS, epochs=4), out, jobs=1)


def row_of(record, key):
    return next(row for row in record["rows"] if row["key"] == key)


def test_numbers_are_those_of_the_run_folders(record, out):
    what = planned("mnist", size="quick", seeds=2, rows=ROWS, epochs=4)
    row = next(row for row in what.all_rows if row.key == "uniform")
    values = []
    for seed in (0, 1):
        metrics = RunFolder(out / "runs" / row.spec_for(seed).folder_name).read("metrics.json")
        values.append(100 * metrics["tprd"])
        assert row_of(record, "uniform")["seeds"][str(seed)]["tprd"] == pytest.approx(values[-1])
        assert row_of(record, "uniform")["seeds"][str(seed)]["floor_tprd"] > 0
    mean = row_of(record, "uniform")["means"]["tprd"]
    assert mean["mean"] == pytest.approx(sum(values) / 2)
    assert mean["n"] == 2
    assert mean["printed"] == {"mean": 8.59, "standard_error": 0.91, "runs": 10}
    assert mean["verdict"] == "none at this size"


def test_scores_and_effective_size_stand_beside_forml(record):
    beside = row_of(record, "forml-default")["beside"]
    assert beside["score_std"]["mean"] > 0.01
    assert 0 < beside["effective_size"]["mean"] < 1
    assert {"tpr_std", "tpr_worst_tenth", "floor_tprd", "seconds"} <= beside.keys()
    assert "score_std" not in row_of(record, "uniform")["beside"]


def test_differences_are_taken_seed_by_seed(record):
    apart = row_of(record, "forml-default")["compared"]["uniform"]["accuracy"]
    ours, theirs = (row_of(record, key)["seeds"] for key in ("forml-default", "uniform"))
    expected = [ours[s]["accuracy"] - theirs[s]["accuracy"] for s in ("0", "1")]
    assert apart["mean"] == pytest.approx(sum(expected) / 2)
    assert apart["n"] == 2
    assert apart["p"] is not None


def test_share_of_the_gap_that_is_closed(record):
    closed = record["gap_closed"]["forml-default"]["accuracy"]
    mean = {key: row_of(record, key)["means"]["accuracy"]["mean"] for key in ROWS}
    way = mean["uniform-clean"] - mean["uniform"]
    assert closed["ours"] == pytest.approx(100 * (mean["forml-default"] - mean["uniform"]) / way)
    assert closed["printed"] is None, "the paper has no such row"
    assert closed["interval"] is None, "two seeds"


def test_record_says_where_it_comes_from(record):
    assert record["size"] == "quick"
    assert record["command"] == f"fairweight reproduce mnist --quick --seeds 2 --rows {','.join(ROWS)} --epochs 4"
    assert record["versions"]["torch"]
    assert record["devices"][0].startswith("CPU")
    assert record["options"]["validation"] == "clean"
    assert record["wall_seconds"] > 0
    assert "Welch" in record["test"]
    assert json.loads(json.dumps(record)) == record


def test_a_changed_number_of_epochs_is_no_reproduction(record):
    shortened = planned("mnist", epochs=1).heading()
    assert not shortened["whole"]
    assert planned("mnist").heading()["whole"]
    text = text_of({**record, **shortened})
    assert "Size: 1 epochs: the paper's own: 10,000 steps. Trained for 1 epochs instead." in text
    assert "there is no verdict at this size" in text


def test_text_shows_both_numbers_and_says_the_size(record):
    text = text_of(record)
    assert "Size: quick: scikit-learn's 1,797 digits" in text
    assert "there is no verdict at this size" in text
    assert "8.59 ± 0.91" not in text, "what is printed is of the full size"
    assert "8.59 ± 0.91: undecided (two seeds" in text_of(with_statistics({**record, "whole": True}))
    assert "effective size" in text
    assert "Verdict: Welch's 95 % interval" in text
    assert "FORML, Algorithm 1" not in text  # a row that was not run


def test_finished_rows_stand_in_a_later_call_and_are_not_run_again(record, out):
    later = reproduce(planned("mnist", size="quick", seeds=2, rows=["uniform"], epochs=4), out, jobs=1)
    assert {row["key"] for row in later["rows"]} == set(ROWS)
    assert row_of(later, "uniform")["seeds"] == row_of(record, "uniform")["seeds"]


def test_a_run_that_was_found_keeps_where_it_was_made(record, out, tmp_path):
    shutil.copytree(out, tmp_path / "found")
    where = sorted((tmp_path / "found" / "runs").glob("*/run.json"))
    for path in where[1:]:
        told = json.loads(path.read_text())
        told |= {"device": "a GPU", "commit": "abc", "versions": {**told["versions"], "torch": "9.9"}}
        path.write_text(json.dumps(told))
        RunFolder(path.parent).seal()
    later = reproduce(planned("mnist", size="quick", seeds=2, rows=["uniform"], epochs=4), tmp_path / "found", jobs=1)
    assert set(later["devices"]) == {"a GPU", *record["devices"]}
    assert set(later["commits"]) == {"abc", *record["commits"]}
    assert set(later["versions"]["torch"].split(", ")) == {"9.9", record["versions"]["torch"]}
    assert later["versions"]["numpy"] == record["versions"]["numpy"]


def test_the_record_is_kept_while_runs_go_on(out, monkeypatch):
    from fairweight.paper import reproduce as module

    kept = []
    monkeypatch.setattr(module, "KEEP_EVERY", 0)
    what = planned("mnist", size="quick", seeds=2, rows=["uniform"], epochs=1)
    last = reproduce(what, out, jobs=1, keep=kept.append)
    assert [row_of(record, "uniform")["means"]["accuracy"]["n"] for record in kept] == [1, 2]
    assert list(kept[0]["walls"]) == list(last["walls"])


def test_loss_ratio_is_of_the_same_runs(out, record):
    what = planned("mnist-loss-ratio", size="quick", seeds=2, rows=["uniform"], epochs=4)
    found = reproduce(what, out, jobs=1)
    assert {row["key"] for row in found["rows"]} == {"uniform", "forml-default"}  # both were there
    row = next(row for row in what.all_rows if row.key == "uniform")
    weights = RunFolder(out / "runs" / row.spec_for(0).folder_name).read_weights()
    twos = weights["label"].astype(str) == "2"
    expected = weights.loc[twos, "ema_loss"].mean() / weights.loc[~twos, "ema_loss"].mean()
    assert row_of(found, "uniform")["seeds"]["0"]["loss_ratio"] == pytest.approx(expected)
    assert row_of(found, "uniform")["means"]["loss_ratio"]["printed"]["mean"] == 2.9


def test_a_failed_row_is_reported_and_the_others_stand(out, monkeypatch):
    from fairweight.runs.pool import _job

    original = _job.run

    def failing(spec, place, **options):
        if spec.method == "forml":
            raise ValueError("no luck")
        return original(spec, place, **options)

    monkeypatch.setattr(_job, "run", failing)
    what = planned("mnist", size="quick", seeds=1, rows=["uniform", "forml"], epochs=1)
    found = reproduce(what, out, jobs=1)
    assert row_of(found, "forml")["failed"]["0"].startswith("ValueError: no luck")
    assert row_of(found, "forml")["means"]["tprd"]["mean"] is None
    assert row_of(found, "uniform")["means"]["tprd"]["n"] == 1
    assert "–" in text_of(found)


def test_a_control_that_cannot_be_computed_stops_no_other_row(out, record, tmp_path):
    """A finished run that lost a file: the rows that were asked for stand as they were."""
    shutil.copytree(out, tmp_path / "pool")
    asked = ("uniform", "uniform-same", "class-bias")
    what = planned("cifar10", size="quick", seeds=1, rows=asked, epochs=1)
    pool = tmp_path / "pool" / "runs"
    for row in what.rows:
        if row.spec is not None:
            shutil.copytree(next((out / "runs").glob("*uniform*")), pool / row.spec_for(0).folder_name)
            about = RunFolder(pool / row.spec_for(0).folder_name)
            about.write("run.json", {**about.read("run.json"), "fingerprint": row.spec_for(0).fingerprint})
            (about.path / "logits.safetensors").unlink()
            about.seal()
    found = reproduce(what, tmp_path / "pool", jobs=1)
    assert row_of(found, "uniform")["seeds"]["0"]["accuracy"] > 0
    assert "logits.safetensors is not there" in row_of(found, "class-bias")["failed"]["0"]
    without = planned("cifar10", size="quick", seeds=1, rows=("uniform", "uniform-same"), epochs=1)
    assert {row["key"] for row in reproduce(without, tmp_path / "pool", jobs=1)["rows"]} == {"uniform", "uniform-same"}
