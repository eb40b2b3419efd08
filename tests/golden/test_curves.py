"""Twenty steps of every method give the numbers that are kept here, whatever has moved in between."""

from __future__ import annotations

import json

import pytest
from tests.golden.cases import CASES, FOLDER, HOW_TO_WRITE, differences, file_of, record


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_run_is_as_it_was(case):
    kept = json.loads(file_of(case).read_text())
    found = differences(record(case), kept, case.rtol)
    assert not found, "\n".join([f"{len(found)} numbers differ; the first ones:", *found[:8]])


def test_every_case_has_a_file_and_every_file_a_case():
    expected, there = {file_of(case).name for case in CASES}, {path.name for path in FOLDER.glob("*")}
    assert len(expected) == len(CASES), "two cases share a name"
    missing, left_over = sorted(expected - there), sorted(there - expected)
    assert not missing, f"No golden curve for {', '.join(missing)}. {HOW_TO_WRITE}"
    assert not left_over, f"No case makes {', '.join(left_over)}: remove the file. {HOW_TO_WRITE}"


@pytest.mark.parametrize(("change", "seen"), [(1e-8, True), (1e-11, False)])
def test_a_small_change_is_seen_and_rounding_is_not(change, seen):
    kept = {"steps": [{"weights": [0.25, 0.5]}], "scores": None}
    moved = {"steps": [{"weights": [0.25, 0.5 * (1 + change)]}], "scores": None}
    assert bool(differences(moved, kept, 1e-9)) == seen
    assert differences({**kept, "scores": {"norm": 1.0}}, kept, 1e-9)


def losses_of(name: str) -> list[float]:
    return [step["loss"] for step in json.loads((FOLDER / f"{name}.json").read_text())["steps"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_curve_is_not_that_of_plain_training(case):
    idle = case.method == "uniform" or (case.method in ("given", "moew") and not case.options)  # no weights, no alpha
    plain = f"uniform-in-fit-{case.net}" if case.variant == "in-fit" else f"uniform-{case.net}"
    assert (losses_of(case.name) == losses_of(plain)) == idle
