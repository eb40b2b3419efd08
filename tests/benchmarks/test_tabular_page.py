"""The page on tables is made from its records, and the settings of the code are those that the rule takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.tables import real

from fairweight.runs.defaults import STRENGTH, TIED_RATE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import tabular
    import tabular_choice

    yield tabular, tabular_choice
    for name in ("tabular", "tabular_choice", "tabular_sources"):  # plain names: nothing else is to find them
        sys.modules.pop(name, None)


def newest(name: str) -> dict:
    path = sorted((ROOT / "records").glob(f"????-??-??_{name}/record.json"))[-1]
    return json.loads(path.read_text())


def test_the_page_is_that_of_the_records(benchmarks):
    page = (ROOT / "docs" / "tables.md").read_text()
    assert benchmarks[0].with_records(page, ROOT / "records") == page, "run: python benchmarks/tabular.py --page"


def test_the_settings_are_those_that_the_rule_takes(benchmarks):
    record = newest("tabular_choice")
    taken, rows = benchmarks[1].chosen(record["runs"])
    assert taken == record["chosen"] == f"strength {STRENGTH:g}, rate {TIED_RATE:g}"
    assert [row["setting"] for row in rows] == [row["setting"] for row in record["rows"]]
    assert {run["seed"] for run in record["runs"]} == set(range(20, 25))


def test_the_rule(benchmarks):
    _, choice = benchmarks
    titles = ["Uniform", *(choice._title(setting) for setting in choice.GRID)]

    def taken(changes: dict[str, tuple[float, float]], elsewhere: dict[str, tuple[float, float]]) -> str:
        runs = []
        for name, given in zip(choice.CHOICE, (changes, elsewhere), strict=True):
            numbers = {
                title: dict(zip(("accuracy", "tprd"), given.get(title, (0.8, 0.2)), strict=True)) for title in titles
            }
            runs.append({"set": name, "seed": 20, "numbers": numbers})
        return choice.chosen(runs)[0]

    one, two = titles[1], titles[2]
    assert taken({one: (0.8, 0.1)}, {}) == one
    assert taken({one: (0.795, 0.1)}, {}) == one
    assert taken({one: (0.785, 0.0), two: (0.8, 0.15)}, {}) == two, "more than a point is too much"
    assert taken({two: (0.8, 0.19)}, {one: (0.785, 0.0)}) == two, "on either set"
    assert taken({one: (0.8, 0.1), two: (0.8, 0.05)}, {one: (0.8, 0.05)}) == one, "the mean of both counts"
    assert taken(dict.fromkeys(titles[1:], (0.5, 0.0)), {}) == ""


def test_the_choice_never_reads_the_rows_that_are_put_aside(benchmarks):
    folder = str(real("compas"))
    from tabular_sources import PART, Source

    aside = Source("compas", True, "aside").frame(folder)
    choice = Source("compas", True, "choice").frame(folder)
    kept = aside[aside[PART] == "train"].drop(columns=PART).reset_index(drop=True)
    assert kept.equals(choice)
    assert 0.15 < (aside[PART] == "test").mean() < 0.25
