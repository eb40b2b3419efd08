"""The LB notebook's benchmark: a seed per process, killed or not, and one record from the folders they leave."""

import copy
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fairweight.errors import BadInput


@pytest.fixture
def record(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("label_bias_record")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A set of MNIST's shape and files, tiny: 200 train and 50 test images, all ten digits in each."""
    folder, draw = tmp_path / "idx", np.random.default_rng(0)
    folder.mkdir()
    for part, n in (("train", 200), ("t10k", 50)):
        digits = np.arange(n, dtype=np.uint8) % 10
        pixels = draw.integers(0, 255, (n, 28, 28), dtype=np.uint8)
        for name, values in ((f"{part}-images-idx3-ubyte", pixels), (f"{part}-labels-idx1-ubyte", digits)):
            head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
            (folder / name).write_bytes(head + values.tobytes())
    return folder


@pytest.fixture
def run(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, images: Path) -> Callable[..., None]:
    label_bias_mnist = script("label_bias_mnist")
    short = ["--steps", "4", "--batch-size", "8", "--width", "8", "--look-every", "2", "--device", "cpu"]

    def started(*words: object, train: bool = True) -> None:
        told = ["label_bias_mnist.py", *map(str, words), *([*short, "--data", str(images)] if train else [])]
        monkeypatch.setattr(sys, "argv", told)
        label_bias_mnist.main()

    return started


def trainings(accuracies: list[float], *, by: float = -0.05) -> list[dict[str, Any]]:
    return [
        {"multiplier": by * k, "mass": 0.28, "predicted_rate": 0.2, "test_accuracy": a, "test_tprd": 9.0,
         "test_max_fnr": 9.0, "trace": [[5000, a - 1], [10_000, a]]}
        for k, a in enumerate(accuracies)
    ]  # fmt: skip


def folder_of(record: ModuleType, path: Path, seeds: dict[int, list[dict[str, Any]]], **changed: Any) -> Path:
    settings = {"steps": 10_000, "batch_size": 50, "layers": 3, "width": 512, "rate": 1.0, "look_every": 1000}
    source = {"versions": {}, "commit": "abc", "device": "a device", "command": "a command", "date": "2026-01-02T03"}
    path.mkdir()
    made = record.one_run({**settings, **changed}, seeds, {"train": 60_000, "test": 10_000}, source)
    (path / "record.json").write_text(json.dumps(made))
    return path


def test_the_published_log_has_a_multiplier_for_every_accuracy_and_obeys_the_rule(record: ModuleType) -> None:
    import tomllib

    log = tomllib.loads(record.PUBLISHED.read_text())
    assert len(log["test_accuracy"]) == len(log["multiplier"]) == 14
    assert log["multiplier"][0] == 0
    assert sorted(log["multiplier"], reverse=True) == log["multiplier"]  # the label stays predicted too often
    assert "Apache-2.0" in log["source"]


def test_one_record_from_folders_keeps_the_seeds_that_were_there(record: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "record"
    first = folder_of(record, tmp_path / "a", {0: trainings([92.0, 96.0]), 1: trainings([94.0, 97.0])})
    record.merge([first], out)
    more = folder_of(record, tmp_path / "b", {5: trainings([93.0, 96.5])})
    faster = folder_of(record, tmp_path / "c", {0: trainings([93.0, 97.0])}, rate=3.0)
    made = record.merge([more, faster], out)
    assert [(r["settings"]["rate"], list(r["seeds"])) for r in made["runs"]] == [(1.0, ["0", "1", "5"]), (3.0, ["0"])]
    assert made == json.loads((out / "record.json").read_text())
    assert made["runs"][0]["unweighted"]["mean"] == pytest.approx(93.0)
    assert made["runs"][0]["unweighted"]["sd"] == pytest.approx(1.0)
    assert made["runs"][0]["seeds_at_96_8"] == {"last_training": 1, "some_training": 1}
    assert "agreement" not in made["runs"][1]  # the notebook has no run at rate 3
    assert [(s["seeds"], s["rate"]) for s in made["sources"]] == [([0, 1], 1.0), ([5], 1.0), ([0], 3.0)]


def test_merging_twice_changes_nothing(record: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "record"
    folder = folder_of(record, tmp_path / "a", {0: trainings([92.0, 96.0])})
    assert record.merge([folder], out) == record.merge([folder], out)


def test_other_results_for_a_known_seed_are_refused(record: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "record"
    record.merge([folder_of(record, tmp_path / "a", {0: trainings([92.0])})], out)
    with pytest.raises(BadInput, match="seed 0"):
        record.merge([folder_of(record, tmp_path / "b", {0: trainings([93.0])})], out)


def test_a_folder_that_was_not_finished_is_named(record: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere"):
        record.merge([tmp_path / "nowhere"], tmp_path / "record")


def test_the_prediction_interval_by_hand(record: ModuleType) -> None:
    found = record._one_more([1.0, 2.0, 3.0], 4.0)  # mean 2, sd 1, n 3: t = 2 / √(4/3) = √3 with 2 degrees of freedom
    t = math.sqrt(3)
    assert found["p"] == pytest.approx(1 - t / math.sqrt(2 + t * t))  # Student's distribution at 2, in closed form
    reach = 4.302652729749464 * math.sqrt(4 / 3)
    assert found["interval"] == pytest.approx([2 - reach, 2 + reach])
    assert record._one_more([2.0], 2.0)["p"] is None


def test_holm_by_hand(record: ModuleType) -> None:
    assert record.holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "agree"), (3.0, "differ")])
def test_the_verdict_tells_a_log_like_ours_from_another(
    record: ModuleType, tmp_path: Path, shift: float, verdict: str
) -> None:
    import tomllib

    log = tomllib.loads(record.PUBLISHED.read_text())
    draw = np.random.default_rng(1)
    seeds = {}
    for seed in range(5):
        made = trainings([a + shift + float(draw.normal(0, 0.5)) for a in log["test_accuracy"]])
        for training, multiplier in zip(made, log["multiplier"], strict=True):
            training["multiplier"] = multiplier + float(draw.normal(0, 0.02))
        seeds[seed] = made
    run = record.merge([folder_of(record, tmp_path / "a", seeds)], tmp_path / "record")["runs"][0]
    assert run["agreement"]["verdict"] == verdict
    assert verdict in run["remark"]
    assert run["trainings"][13]["published"]["test_accuracy"] == 96.81
    one_seed = {0: copy.deepcopy(seeds[0])}
    alone = record.merge([folder_of(record, tmp_path / "b", one_seed)], tmp_path / "alone")["runs"][0]
    assert alone["agreement"]["verdict"] == "too few seeds to say"


def test_a_run_leaves_a_folder_that_merges_and_goes_on_after_a_stop(
    run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run("--out", whole, "--rate", 3, "--seeds", 5, 6, "--iterations", 3)
    run("--out", stopped, "--rate", 3, "--seeds", 5, "--iterations", 2)
    capsys.readouterr()
    run("--out", stopped, "--rate", 3, "--seeds", 5, 6, "--iterations", 3)
    assert "seed 5  3/3" in (said := capsys.readouterr().out)
    assert "seed 5  1/3" not in said  # finished before
    assert "seed 5  2/3" not in said
    a, b = (json.loads((folder / "record.json").read_text()) for folder in (whole, stopped))
    assert a["seeds"] == b["seeds"]
    assert str(tmp_path) not in json.dumps(a)
    moved = a["seeds"]["5"]
    assert moved[1]["multiplier"] == pytest.approx(3 * (0.1 - moved[0]["predicted_rate"]), abs=1e-6)
    run("--merge", whole, "--out", tmp_path / "record", train=False)
    assert "seeds 5, 6" in capsys.readouterr().out
