"""Somebody else's run folder runs no code of theirs, and names what it makes us read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from tests.command import fairweight
from tests.runs import hostile
from tests.runs.hostile import copied, is_one_sentence, with_changed

from fairweight.errors import BadInput
from fairweight.runs.spec import Spec

EVIL = """
from pathlib import Path
from torch import nn

Path("ran").touch()

class Net(nn.Linear):
    def __init__(self):
        super().__init__(7, 2)
"""
QUITS = """
import sys

class Net:
    def __init__(self):
        sys.exit(0)

def make():
    raise RuntimeError("no, thanks")
"""
BY_A_RUN = {
    "predict": ("predict", "run", "people.csv", "--out", "p.csv"),
    "refit": ("refit", "run", "--out", "again", "--no-baseline"),
    "condense": ("condense", "run", "--out", "kept", "--retrain", "--seeds", "1"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return hostile.desk(tmp_path_factory.mktemp("trust"))


@pytest.fixture
def evil(made, tmp_path):
    folder = copied(made, tmp_path / "desk")
    (folder / "evil.py").write_text(EVIL)
    with_changed(folder / "run", "run.json", ("spec", "network"), {"name": "evil.py:Net"})
    return folder


@pytest.mark.parametrize("verb", BY_A_RUN)
def test_code_that_a_run_names_is_not_imported(evil, verb):
    done = fairweight(evil, *BY_A_RUN[verb])
    assert is_one_sentence(done), done.stderr
    assert "evil.py:Net" in done.stderr
    assert "--network evil.py:Net" in done.stderr
    assert "--trust-code" in done.stderr
    assert not (evil / "ran").exists()
    assert not any((evil / name).exists() for name in ("p.csv", "again", "kept"))


def test_a_run_that_builds_on_a_run_with_code_is_no_way_around(made, tmp_path):
    folder = copied(made, tmp_path / "desk")
    (folder / "evil.py").write_text(EVIL)
    inner = {**json.loads((folder / "run" / "run.json").read_text())["spec"], "network": {"name": "evil.py:Net"}}
    rule = {"train": {"drop": 0.1, "lowest": "ema_loss", "runs": [inner]}}
    with_changed(folder / "run", "run.json", ("spec", "rows"), rule)
    for verb in ("refit", "condense"):
        done = fairweight(folder, *BY_A_RUN[verb])
        assert is_one_sentence(done), done.stderr
        assert "evil.py:Net" in done.stderr
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("words", [("--network", "evil.py:Net"), ("--trust-code",)])
def test_code_that_the_user_names_or_trusts_is_imported(evil, words):
    done = fairweight(evil, *BY_A_RUN["predict"], *words)
    assert (evil / "ran").exists()
    assert is_one_sentence(done)  # the run's own parameters do not fit it
    assert "does not fit the run" in done.stderr


def test_another_network_than_the_runs_is_refused(made):
    done = fairweight(made, *BY_A_RUN["predict"], "--network", "resnet18")
    assert is_one_sentence(done)
    assert "has the network mlp; leave --network out" in done.stderr


def test_autocast_is_one_of_a_few_words(made, tmp_path):
    folder = copied(made, tmp_path / "desk")
    for word in ("load", "compile", "float64"):
        with_changed(folder / "run", "run.json", ("spec", "autocast"), word)
        assert f"autocast='{word}'; choose from: bfloat16, float16" in fairweight(folder, *BY_A_RUN["refit"]).stderr
    assert Spec("x", autocast="bfloat16").autocast == "bfloat16"
    with pytest.raises(BadInput):
        Spec("x", autocast="__doc__")


@pytest.mark.parametrize("words", [("audit", "run", "--out", "page"), BY_A_RUN["refit"]])
def test_a_source_is_named_before_it_is_opened(made, tmp_path, words):
    folder = copied(made, tmp_path / "desk")
    with_changed(folder / "run", "run.json", ("spec", "source"), "/nowhere/secrets.csv")
    said = fairweight(folder, *words).stderr.splitlines()
    assert said[0] == "Reading what run was trained on: /nowhere/secrets.csv."


@pytest.mark.parametrize("verb", ["predict", "suspects"])
def test_verbs_that_need_no_source_open_none(made, tmp_path, verb):
    folder = copied(made, tmp_path / "desk")
    with_changed(folder / "run", "run.json", ("spec", "source"), "/nowhere/secrets.csv")
    done = fairweight(folder, *hostile.VERBS[verb])
    assert done.returncode == 0
    assert "secrets" not in done.stderr


@pytest.mark.parametrize(
    "words", ["sys:exit", "os:abort", "builtins:exit", "faulty.py:Net", "quits.py:Net", "quits.py:make"]
)
def test_a_network_that_is_none_is_one_sentence(made, tmp_path, words):
    folder = copied(made, tmp_path / "desk")
    (folder / "faulty.py").write_text("1 / 0\n")
    (folder / "quits.py").write_text(QUITS)
    command = [sys.executable, "-m", "fairweight", "train", *hostile.TABLE[:5], "--network", words, "--out", "bad"]
    if words == "os:abort":  # where it would be called, this process would end with it
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    else:
        done = fairweight(folder, *command[3:])
    assert is_one_sentence(done), (done.returncode, done.stderr)
    assert not (folder / "bad").exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
@pytest.mark.parametrize("words", [("predict", "run", "people.csv"), ("suspects", "run")])
def test_only_a_regular_file_is_replaced(made, tmp_path, kind, words):
    folder, out = copied(made, tmp_path / "desk"), tmp_path / "out.csv"
    (tmp_path / "dear").write_text("kept")
    {
        "link": lambda: out.symlink_to(tmp_path / "dear"),
        "dangling": lambda: out.symlink_to(tmp_path / "nowhere"),
        "pipe": lambda: os.mkfifo(out),
        "folder": out.mkdir,
    }[kind]()
    before = out.lstat()
    done = fairweight(folder, *words, "--out", out)
    assert is_one_sentence(done), done.stderr
    assert (out.lstat().st_ino, out.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "dear").read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("verb", ["verify", "audit", "suspects"])
def test_control_characters_of_paths_never_reach_the_terminal(made, tmp_path, verb):
    name = "r\x1b[31m\u202e"
    folder = copied(made, tmp_path / "desk")
    (folder / "run").rename(folder / name)
    words = [name if word == "run" else word for word in hostile.VERBS[verb]]
    done = fairweight(folder, *words)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    assert "r\\x1b[31m\\u202e" in done.stdout + done.stderr


@pytest.mark.parametrize("inner", ["uniform", "refit", "candidates", "strength_3"])
def test_a_training_is_not_led_out_of_its_folder(made, tmp_path, inner):
    folder, elsewhere = copied(made, tmp_path / "desk"), tmp_path / "elsewhere"
    shutil.copytree(folder / "run", elsewhere)
    (folder / "run" / inner).symlink_to(elsewhere)
    done = fairweight(folder, "train", *hostile.TABLE, "--out", "run", "--fresh")
    assert is_one_sentence(done), done.stderr
    assert f"{inner} is a link" in done.stderr
    assert (elsewhere / "metrics.json").is_file()
