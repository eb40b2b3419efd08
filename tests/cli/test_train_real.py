"""Adult, COMPAS, FairFace, MNIST and digits, each by one line, from the published files to the last screen.

The whole of Adult, with every candidate of the trees, is run by the page tutorials/table.md and its test.
"""

from __future__ import annotations

import json

import pytest
from tests.command import fairweight
from tests.tables import real

LINES = {
    "adult": ("--method", "forml", "--limit", "1500", "--epochs", "3"),
    "compas": ("--method", "forml", "--limit", "1500", "--epochs", "5"),
    "fairface": ("--method", "forml", "--limit", "120", "--epochs", "1", "--batch-size", "32"),
    "mnist": ("--method", "forml", "--limit", "600", "--epochs", "2", "--corrupt", "one-class:label=2,fraction=0.2"),
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRWEIGHT_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_one_line(name, tmp_path):
    folder = real(name)
    done = fairweight(tmp_path, "train", name, "--data-dir", folder, "--out", "run", *LINES[name])
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["n"] > 0
    assert {g["group"] for g in metrics["groups"]} >= {
        "adult": {"Female", "Male"},
        "compas": {"African-American", "Caucasian"},
        "fairface": {"Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White"},
        "mnist": set("0123456789"),
    }[name]
    assert "plain training" in done.stdout.replace("\n", " ")
    assert (tmp_path / "run" / "uniform" / "metrics.json").is_file()


def test_digits_need_no_files(tmp_path):
    done = fairweight(tmp_path, "train", "digits", "--out", "run", "--epochs", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy"] > 0.5
