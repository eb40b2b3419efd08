"""The page on tables is made from its records, and the settings of the code are those that the rule takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tables import real

from fairweight.runs.defaults import STRENGTH, TIED_RATE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tabular(script):
    return script("tabular")


def newest(name: str) -> dict:
    path = sorted((ROOT / "records").glob(f"????-??-??_{name}/record.json"))[-1]
    return json.loads(path.read_text())


def test_the_page_is_that_of_the_records(tabular):
    page = (ROOT / "docs" / "tables.md").read_text()
    assert tabular.with_records(page, ROOT / "records") == page, "run: python benchmarks/tabular.py --page"


def test_the_settings_are_those_that_the_rule_took():
    record = newest("tabular_choice")
    assert record["chosen"] == f"strength {STRENGTH:g}, rate {TIED_RATE:g}"
    assert {run["seed"] for run in record["runs"]} == set(range(20, 25))


def test_a_fifth_of_compas_is_put_aside_once(tabular):
    aside = tabular.SETTINGS["compas, race in the inputs, test rows put aside"].frame(str(real("compas")))
    assert 0.15 < (aside["part of the benchmark"] == "test").mean() < 0.25
