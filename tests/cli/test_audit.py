"""audit, suspects and condense on real runs, as a user starts them."""

import csv
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from tests.command import fairweight

from fairweight.runs.folder import RunFolder
from fairweight.runs.run import run as train
from fairweight.runs.spec import Spec

DIGITS = Spec(
    "digits",
    data={
        "corruptions": ["one-class:label=2,fraction=0.2"],
        "split": {"test": 0.25, "validation": 0.0},
        "exemplar": {"source": "train", "size": 15},
    },
    network={"name": "mlp", "hidden": [64]},
    epochs=12,
    batch_size=64,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Digits with a fifth of the labels set to 2, by FORML and by plain training."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    for method in ("forml", "uniform"):
        train(DIGITS.with_(method=method), folder / method)
    return folder


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table with two sensitive columns, whose groups have odd names."""
    folder = tmp_path_factory.mktemp("people")
    random = np.random.default_rng(0)
    n = 600
    sex = random.choice(["<script>alert(1)</script>", "M|F"], n)
    x = random.normal(size=n)
    pay = np.where(x + random.normal(size=n) + 0.5 * (sex == "M|F") > 0, "high", "low")
    frame = pd.DataFrame({"x": x, "town": random.choice(["a", "b"], n), "sex": sex, "pay": pay})
    frame.to_csv(folder / "people.csv", index=False)
    spec = Spec(str(folder / "people.csv"), label="pay", group="sex", method="group-dro", epochs=3)
    train(spec, folder / "run")
    return folder


@pytest.mark.parametrize("out", ["people.csv", "./people.csv", "run/weights.parquet"])
@pytest.mark.parametrize(
    "words",
    [
        ("predict", "run", "people.csv"),
        ("predict", "run", "peopl*.csv"),
        ("suspects", "run"),
        ("weights", "people.csv", "--label", "pay", "--group", "sex", "--learner", "linear"),
    ],
)
def test_what_is_read_and_what_a_run_relies_on_is_not_written_over(people, words, out):
    before = (people / out).read_bytes()
    done = fairweight(people, *words, "--out", out)
    assert (people / out).read_bytes() == before
    assert done.returncode == 2
    assert "name another file" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("condense", "run"),
        ("clean", "run", "--trust", "--seeds", "1", "--jobs", "1"),  # has a weights.parquet of its own
        ("audit", "copy"),
        ("audit", "--predictions", "said.csv", "--label", "pay", "--prediction", "pay"),  # has a metrics.json
    ],
)
def test_the_folder_of_a_run_takes_no_files_of_other_verbs(people, words):
    people.joinpath("said.csv").write_bytes((people / "people.csv").read_bytes())
    shutil.copytree(people / "run", people / "copy", dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in (people / "run").iterdir() if path.is_file()}
    done = fairweight(people, *words, "--out", "run")
    assert {path.name: path.read_bytes() for path in (people / "run").iterdir() if path.is_file()} == before
    assert done.returncode == 2
    assert "--out run is the folder of a run, whose files could be lost; give another, or none." in done.stderr


@pytest.mark.parametrize("words", [("run",), ("--predictions", "people.csv", "--label", "pay", "--prediction", "pay")])
def test_a_page_to_share_is_not_written_over_the_data(people, words):
    before = (people / "people.csv").read_bytes()
    done = fairweight(people, "audit", *words, "--share", "people.csv")
    assert (people / "people.csv").read_bytes() == before
    assert done.returncode == 2
    assert "--share people.csv is a file that is read here" in done.stderr


@pytest.mark.slow
def test_audit_writes_a_page_and_a_card_and_finds_the_baseline_beside(runs):
    done = fairweight(runs, "audit", "forml", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=pytest.fail)  # NaN is no JSON
    assert found["baseline"] == "Uniform"
    assert found["differences"]["tprd"]["value"] < 0
    assert found["wrong_labels"]["auc"] > 0.95
    kinds = {finding["kind"] for finding in found["findings"]}
    assert {"beside the baseline", "wrong labels", "wrong labels found", "effect", "weight", "accuracy"} <= kinds
    page = (runs / "forml" / "report.html").read_text()
    assert page.count('<img class="thumb" src="data:image/png;base64,') == 12 + 12 + 24
    card = (runs / "forml" / "MODEL_CARD.md").read_text()
    assert '"image-classification"' in card
    assert f"{100 * RunFolder(runs / 'forml').read('metrics.json')['accuracy']:.1f} %" in card


def test_the_numbers_beside_the_baseline_are_those_of_both_runs(runs):
    done = fairweight(runs, "audit", "forml", "--baseline", "uniform", "--out", "elsewhere", "--images", "3", "--json")
    found = json.loads(done.stdout)
    ours, theirs = (RunFolder(runs / name).read("metrics.json") for name in ("forml", "uniform"))
    for name in ("accuracy", "tprd", "max_fnr"):
        apart = found["differences"][name]
        assert apart["value"] == pytest.approx(ours[name] - theirs[name])
        assert apart["low"] <= apart["value"] <= apart["high"]
    page = (runs / "elsewhere" / "report.html").read_text()
    assert "The page carries the pictures of 3 samples" in page


def test_a_run_without_scores_says_what_is_missing(runs):
    done = fairweight(runs, "audit", "uniform")
    assert done.returncode == 0, done.stderr
    assert "Uniform learns no score per sample" in " ".join(done.stdout.split())
    assert "Page: uniform/report.html" in done.stdout


def test_a_table_shows_its_columns_and_odd_names_do_no_harm(people):
    done = fairweight(people, "audit", "run")
    assert done.returncode == 0, done.stderr
    page = (people / "run" / "report.html").read_text()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<dt>town</dt>" in page
    assert "No plain training of the same data was found to compare with" in " ".join(done.stdout.split())
    assert '"tabular-classification"' in (people / "run" / "MODEL_CARD.md").read_text()


@pytest.mark.slow
def test_whole_numbers_with_missing_ones_and_lists_are_shown(tmp_path):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"x": draw.normal(size=300), "sex": draw.choice(["F", "M"], 300)})
    frame = frame.assign(pay=np.where(frame["x"] > 0, "high", "low"), town=pd.array([1, None, 3] * 100, dtype="Int64"))
    frame["kinds"] = [[1, 2], [2], [1]] * 100
    frame.to_parquet(tmp_path / "people.parquet")
    spec = Spec(str(tmp_path / "people.parquet"), label="pay", group="sex", method="group-dro", epochs=1)
    train(spec, tmp_path / "run")
    done = fairweight(tmp_path, "audit", "run")
    assert done.returncode == 0, done.stderr


def test_a_page_to_share_has_no_rows_and_columns_that_were_no_inputs_are_nowhere(people):
    done = fairweight(people, "audit", "run", "--share", "shared.html", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shared"] == "shared.html"
    own, shared = (people / "run" / "report.html").read_text(), (people / "shared.html").read_text()
    assert "<dt>town</dt>" in own
    assert "<dt>sex</dt>" not in own  # the group was no input
    assert "<dt>pay</dt>" not in own
    assert "<dt>" not in shared.split('<section id="about"')[0]
    assert 'id="data"' not in shared
    whole = fairweight(people, "audit", "run", "--share", "shared.html", "--with-rows")
    assert 'id="data"' in (people / "shared.html").read_text(), whole.stderr
    fairweight(people, "audit", "run", "--without-rows", "--out", "bare")
    assert 'id="data"' not in (people / "bare" / "report.html").read_text()


def test_a_source_that_is_gone_is_said_and_the_rest_is_shown(people, tmp_path):
    moved = people / "people.csv"
    content = moved.read_bytes()
    moved.unlink()
    try:
        done = fairweight(people, "audit", "run", "--out", tmp_path)
    finally:
        moved.write_bytes(content)
    assert done.returncode == 0, done.stderr
    assert "own images or columns are not shown" in " ".join(done.stdout.split())
    assert (tmp_path / "report.html").is_file()


def test_suspects_ranks_every_label_and_measures_itself_where_the_truth_is_known(runs):
    done = fairweight(runs, "suspects", "forml", "--top", "5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["rank"] for row in found["top"]] == [1, 2, 3, 4, 5]
    assert found["truth"]["auc"] > 0.95
    assert found["truth"]["precision_at_true_count"] > 0.8
    with (runs / "forml" / "suspects.csv").open() as file:
        rows = list(csv.DictReader(file))
    weights = RunFolder(runs / "forml").read_weights()
    assert sorted(int(row["row"]) for row in rows) == sorted(weights["row"])
    text = fairweight(runs, "suspects", "uniform", "--out", "ranked.parquet")
    assert "AUC" in text.stdout
    assert len(pd.read_parquet(runs / "ranked.parquet")) == len(weights)


def test_condense_writes_the_kept_rows_twice_and_says_what_went(runs):
    done = fairweight(runs, "condense", "forml", "--drop", "10%", "--out", "small", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    weights = RunFolder(runs / "forml").read_weights()
    assert found["dropped"] == round(0.1 * len(weights))
    listed = [int(line) for line in (runs / "small" / "kept.txt").read_text().split()]
    frame = pd.read_parquet(runs / "small" / "kept.parquet")
    assert sorted(frame["row"]) == listed
    dropped = weights[~weights["row"].isin(listed)]
    assert dropped["ema_weighted_loss"].max() <= frame["value"].min() + 1e-12
    for rule in ("N2", "N3", "N4", "N5", "forgetting", "score", "DRoP"):
        again = fairweight(runs, "condense", "forml", "--drop", "25", "--rule", rule, "--out", rule)
        assert again.returncode == 0, again.stderr
        assert "25 samples go" in again.stdout


@pytest.mark.slow
def test_retrain_closes_the_loop_over_seeds(runs):
    words = ("condense", "uniform", "--drop", "20%", "--rule", "N5", "--retrain", "--seeds", "2", "--jobs", "1")
    done = fairweight(runs, *words, "--out", "loop")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.split("\n") if "±" in line]
    titles = ("all samples", "kept by the rule", "random, same size", "random, same count per class")
    for title in titles:
        assert any(line.startswith(title) for line in lines), done.stdout
        assert all(f" {title}, seed {seed}: trained in " in done.stderr for seed in range(2)), done.stderr
    summary = json.loads((runs / "loop" / "condense.json").read_text())
    kept = summary["kept"]
    assert summary["retrained"]["kept"]["samples"] == kept
    assert summary["retrained"]["kept"]["tprd"]["n"] == 2
    weights = RunFolder(runs / "uniform").read_weights().set_index("row")
    folders = [RunFolder(path.parent) for path in (runs / "loop").glob("*/metrics.json")]
    assert len(folders) == 8
    sizes = sorted(len(folder.read_weights()) for folder in folders)
    assert sizes == [kept] * 6 + [len(weights)] * 2
    by_class = [int(row) for row in (runs / "loop" / "random-by-class_seed0.txt").read_text().split()]
    chosen = [int(row) for row in (runs / "loop" / "kept.txt").read_text().split()]
    assert weights.loc[by_class, "label"].value_counts().equals(weights.loc[chosen, "label"].value_counts())
    again = fairweight(runs, *words, "--out", "loop", "--json")
    assert json.loads(again.stdout)["retrained"] == summary["retrained"]
    assert again.stderr.count("found") == 8  # nothing is trained twice


@pytest.mark.slow
def test_retrain_by_both_methods_beside_a_random_drop_of_the_same_cells(people):
    words = ("condense", "run", "--drop", "20%", "--retrain", "--seeds", "1", "--jobs", "1", "--out", "small")
    done = fairweight(people, *words)
    assert done.returncode == 0, done.stderr
    assert "uniform, in %, 1 seeds" in done.stdout
    assert "group-dro, in %, 1 seeds" in done.stdout
    assert done.stdout.strip().endswith("One seed tells nothing of chance: raise the seeds.")
    summary = json.loads((people / "small" / "condense.json").read_text())
    assert set(summary["by_method"]) == {"uniform", "group-dro"}
    assert summary["by_method"]["uniform"] == summary["retrained"]
    weights = RunFolder(people / "run").read_weights().set_index("row")
    drawn, kept = (
        weights.loc[[int(row) for row in (people / "small" / name).read_text().split()], ["label", "group"]]
        for name in ("random-by-cell_seed0.txt", "kept.txt")
    )
    assert drawn.value_counts().to_dict() == kept.value_counts().to_dict()
    assert sorted(drawn.index) != sorted(kept.index)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("audit", "nowhere"), "there is no folder 'nowhere'"),
        (("audit", "."), "holds 2 runs and is none itself; give one of them: forml, uniform"),
        (("audit",), "name the folder of a run, or a file with --predictions"),
        (("audit", "forml", "--predictions", "x.csv"), "one of the two"),
        (("suspects", "nowhere"), "there is no folder"),
        (("suspects", "forml", "--out", "x.txt"), "ends in .csv or .parquet"),
        (("condense", "forml", "--drop", "150%"), "--drop 150% is no part of"),
        (("condense", "forml", "--rule", "best"), "is no rule of condensation"),
        (("condense", "uniform", "--rule", "score"), "choose another rule"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(runs, words, says, tmp_path):
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("forml", "uniform"):
        (folder / name).symlink_to(runs / name)
    done = fairweight(folder, *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not re.search("Traceback", done.stderr)
    assert done.stdout == ""


def test_a_run_that_has_not_ended_is_told_from_no_run(runs, tmp_path):
    (tmp_path / "run.json").write_text((runs / "forml" / "run.json").read_text())
    assert "has not come to its end" in fairweight(tmp_path, "audit", tmp_path).stderr
    (tmp_path / "empty").mkdir()
    assert "is no run folder" in fairweight(tmp_path, "audit", "empty").stderr


@pytest.mark.parametrize("words", [("audit",), ("suspects",), ("condense",)])
def test_a_place_that_takes_no_files_is_one_sentence(people, words):
    place = "people.csv/below.csv"
    done = fairweight(people, *words, "run", "--out", place)
    assert done.returncode == 2
    assert done.stdout == ""
    said = re.sub(r"^Reading what run was trained on: .*people\.csv\.\n", "", done.stderr)
    assert re.fullmatch(rf"fairweight: {place} cannot be (made|written) \(.+\); choose another .+\n", said)
