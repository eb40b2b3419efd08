"""Methods that are many trainings, by name on the command line: killed in the middle they go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.command import fairweight

COMMON = ("train", "digits", "--limit", "300", "--epochs", "3", "--patience", "0", "--no-baseline", "--device", "cpu")
MOEW = (*COMMON, "--method", "moew", "--search", "rounds=2", "--search", "per_round=2")


def results(folder):
    return json.loads((folder / "search.json").read_text())["results"]


@pytest.mark.slow
def test_a_search_killed_in_the_middle_goes_on_with_what_was_finished(tmp_path):
    whole = fairweight(tmp_path, *MOEW, "--out", "whole")
    assert "training 4 of 4 is done" in whole.stderr
    assert "alpha over many trainings, rounds 2, per_round 2" in whole.stderr
    killed = subprocess.Popen(
        [sys.executable, "-m", "fairweight", *MOEW, "--out", str(tmp_path / "broken")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    for moment in ("training 2 of 4 is done", "epoch 2/3"):  # in the middle of the third training
        for line in killed.stderr:
            if moment in line:
                break
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = results(tmp_path / "broken")
    assert len(before) == 2
    again = fairweight(tmp_path, *MOEW, "--out", "broken")
    assert again.returncode == 0
    assert "training 1 of 4" not in again.stderr
    assert "training 2 of 4" not in again.stderr
    assert "training 3 of 4 is done" in again.stderr
    assert results(tmp_path / "broken")[:2] == before
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken")]
    assert models[0] == models[1]
    assert "is done" not in fairweight(tmp_path, *MOEW, "--out", "broken").stderr  # all of it was there


def test_label_bias_with_a_training_per_multiplier(tmp_path):
    words = ("--method", "label-bias", "--search", "name=multiplier", "--search", "iterations=2")
    done = fairweight(tmp_path, *COMMON, *words, "--out", "run", "--json")
    assert json.loads(done.stdout)["metrics"]["search"] == {"trainings": 2, "chosen": "001"}
    assert len(results(tmp_path / "run")) == 2


def test_an_alpha_that_is_given_is_trained_once(tmp_path):
    alpha = "alpha=[0.5,0,0,0,0,0,0,0,0,-0.5]"
    assert fairweight(tmp_path, *COMMON, "--method", "moew", "--option", alpha, "--out", "run").returncode == 0
    assert not (tmp_path / "run" / "search.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("uniform", "--search", "name=multiplier"), "choose label-bias"),
        (("jtt", "--search", "iterations=3"), "say which"),
        (("moew", "--option", "alpha=[0.5,0.5]", "--search", "rounds=2"), "leave one of them out"),
        (("moew", "--search", "colour=2"), "no option 'colour'"),
        (("moew", "--search", "rounds"), "--search name=value"),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_one_sentence(words, sentence, tmp_path):
    done = fairweight(tmp_path, *COMMON, "--out", "run", "--method", *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
