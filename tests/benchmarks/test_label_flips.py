"""Wrong labels in one group: cell means, the ranking inside cells, and the verdict on made-up numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch


@pytest.fixture
def flips(script):
    return script("label_flips")


def test_cell_means_leave_four_numbers_and_the_total(flips):
    weights = torch.tensor([1.0, 3.0, 5.0, 7.0, 2.0])
    labels, groups = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 0, 0, 1, 1])
    means = flips.cell_means(weights, labels, groups)
    assert means.tolist() == [2.0, 2.0, 5.0, 4.5, 4.5]


def test_a_cell_weight_alone_ranks_nothing_within_its_cell(flips):
    wrong = torch.tensor([True, False, False, True, False, False])
    labels, groups = torch.tensor([0, 0, 0, 1, 1, 1]), torch.zeros(6, dtype=torch.int64)
    low_where_wrong = torch.tensor([0.1, 1.0, 1.0, 0.1, 1.0, 1.0])
    by_cell = torch.tensor([0.1, 0.1, 0.1, 1.0, 1.0, 1.0])
    assert flips.auc_in_cells(wrong, low_where_wrong, labels, groups) == 1.0
    assert flips.auc_in_cells(wrong, by_cell, labels, groups) == 0.5
    assert flips.auc_in_cells(torch.zeros(6, dtype=torch.bool), by_cell, labels, groups) is None


def made_up(flips, accuracy, gap):
    """Runs in which FORML lies this far from the means of its weights."""
    titles = (flips.PLAIN, *dict.fromkeys(title for question in flips.QUESTIONS for title in question))
    runs = []
    for k in range(6):
        noise = 0.1 * (-1) ** k
        numbers = {t: {"accuracy": 85.0, "gap": 5.0, "positives": 20.0, "seconds": 1.0} for t in titles}
        numbers[flips.BOTH] |= {"accuracy": 85 + accuracy + noise, "gap": 5 + gap + noise}
        sizes = {"n_train": 9, "n_exemplar": 4, "n_test": 9, "wrong": 2}
        runs.append({"set": "adult", "flips": 0.1 if k % 2 else 0.2, "seed": k // 2, **sizes, "rows": numbers})
    return runs


@pytest.mark.parametrize(
    ("accuracy", "gap", "gains", "costs"),
    [
        (0.0, 0.0, [], []),
        (1.0, -1.0, ["more accuracy", "less gap"], []),
        (1.0, 1.0, ["more accuracy"], ["more gap"]),
        (-1.0, 0.0, [], ["less accuracy"]),
    ],
)
def test_an_answer_follows_the_intervals(flips, accuracy, gap, gains, costs):
    found = flips.answer(made_up(flips, accuracy, gap), *flips.QUESTIONS[0])
    assert (found["gains"], found["costs"]) == (gains, costs)
    assert ("no sure difference" in flips.sentence(found)) is not bool(gains or costs)


def test_of_one_run_nothing_is_sure(flips):
    found = flips.answer(made_up(flips, 9.0, -9.0)[:1], *flips.QUESTIONS[0])
    assert (found["gains"], found["costs"]) == ([], [])


def test_a_record_and_its_page(flips):
    record = json.loads(json.dumps(flips.record_of(made_up(flips, 1.0, -1.0))))
    assert set(record["sets"]) == {"adult, 10% of Female flipped", "adult, 20% of Female flipped"}
    assert record["beside_plain"][flips.BOTH]["accuracy"]["mean"] == pytest.approx(1.0)
    assert record["verdict"] == record["answers"][0]["sentence"]
    text = flips.page(record)
    assert all(found["sentence"] in text for found in record["answers"])
    assert f"| {flips.BOTH} | 85.90 ± 0.00 | 3.90 ± 0.00 | – | 1.0 |" in text


@pytest.mark.slow
def test_one_run_has_every_row_and_flips_one_group_of_train_alone(flips, script, monkeypatch):
    sets = script("judgement_sets")

    def read(data, rng):
        n = 800
        group, label = rng.integers(0, 2, n), rng.integers(0, 2, n)
        frame = {f"x{k}": label + rng.normal(size=n) for k in range(3)}
        return pd.DataFrame({**frame, "label": label, "group": np.where(group == 1, "Female", "Male")})

    monkeypatch.setitem(sets.SETS, "adult", sets.Source(read, "made up"))
    run = flips.one("adult", 0.2, 0, None, rows=400, epochs=2)
    every = {flips.PLAIN, flips.ADDED, flips.CLEAN, flips.FIXED, *(t for question in flips.QUESTIONS for t in question)}
    assert set(run["rows"]) == every
    women = 0.5 * run["n_train"]
    assert run["wrong"] == pytest.approx(0.2 * women, rel=0.2)
    assert all(row["kept_epoch"] in (1, 2) for row in run["rows"].values())
    assert run["rows"][flips.OWN]["auc_in_cells"] is not None
