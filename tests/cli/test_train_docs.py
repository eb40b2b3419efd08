"""What docs/your-own-data.md says is what the command line does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tests.command import fairweight
from tests.tables import people

from fairweight import FORML, catalog
from fairweight.cli._parse import assigned
from fairweight.runs.defaults import STRENGTH, TIED_RATE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "your-own-data.md").read_text()


def test_every_flag_on_the_page_exists(tmp_path):
    known = set(re.findall(r"--[a-z-]+", fairweight(tmp_path, "train", "--help").stdout))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert named
    assert named <= known


def test_the_named_sets_and_numbers_on_the_page_are_those_of_the_code():
    (row,) = re.findall(r"\| a named set \| (.*?), and synthetic", PAGE)
    assert set(re.findall(r"`([\w-]+)`", row)) <= set(catalog.names("data.sets"))
    assert f"+ {STRENGTH:g} × the gap" in PAGE
    assert f"a rate of {TIED_RATE:g}" in PAGE


def test_every_tie_that_a_page_names_is_one_that_forml_takes():
    named = {tie for path in DOCS.rglob("*.md") for tie in re.findall(r"--option (tie=\w+)", path.read_text())}
    assert named
    for entry in named:
        FORML(torch.nn.Linear(2, 2), num_samples=4, **assigned([entry], "--option"))


@pytest.mark.slow
@pytest.mark.parametrize("method", catalog.names("methods"))
def test_every_method_trains_by_one_line(method, tmp_path):
    people(300).to_csv(tmp_path / "p.csv", index=False)
    words = (
        "--label",
        "income",
        "--group",
        "sex",
        "--method",
        method,
        "--epochs",
        "2",
        "--no-baseline",
        "--out",
        "run",
    )
    done = fairweight(tmp_path, "train", "p.csv", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.json").is_file()
