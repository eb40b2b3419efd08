"""The table in a terminal."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

import fairweight.metrics as fm


def width(line):
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def test_binary_table_in_full():
    labels = [1, 1, 1, 1, 0, 0, 1, 1, 0, 0]
    predictions = [1, 1, 1, 0, 0, 1, 1, 0, 0, 0]
    table = fm.group_table(labels, predictions, {"sex": list("FFFFFFMMMM")})
    blocks = str(table).split("\n\n")
    assert blocks[0].splitlines() == [
        "sex  n  positives              accuracy                   TPR                   FPR              selected",
        "F    6          4  0.667 [0.300, 0.903]  0.750 [0.301, 0.954]  0.500 [0.095, 0.905]  0.667 [0.300, 0.903]",
        "M    4          2  0.750 [0.301, 0.954]  0.500 [0.095, 0.905]  0.000 [0.000, 0.658]  0.250 [0.046, 0.699]",
    ]
    assert f"TPRD                     0.250 [0.000, {table.estimate('tprd').high:.3f}]" in blocks[1].splitlines()
    assert "10 samples, 95 % intervals (of rates: Wilson score)." in blocks[2]
    assert "Equal groups of these sizes would show a TPRD of" in blocks[2]
    assert "Positive label: 1." in blocks[2]


def test_rows_align_whatever_the_names_are():
    names = ["F", "日本語グループ", "a\nb\x1b[31m", "x" * 100]
    table = fm.group_table([0, 1] * 4, [0, 1] * 4, [name for name in names for _ in range(2)])
    rows = str(table).split("\n\n")[0].splitlines()
    assert len(rows) == 5
    assert len({width(row) for row in rows}) == 1
    assert "\x1b" not in str(table)
    assert max(map(width, rows)) < 140


def test_what_is_left_out_is_said():
    table = fm.group_table([1, 1, 0, 1], [1, 0, 0, 1], ["a", "b", "c", None], missing="ignore")
    text = str(table)
    assert "1 samples are left out: their group is missing or not known." in text
    assert "because no sample has that label: c." in text
    assert "not estimable" in text
    assert "nan" not in text


def test_many_rows_show_the_worst():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(50), 20)
    predictions = np.where(rng.random(1000) < 0.9, labels, (labels + 1) % 50)
    predictions[labels == 7] = 8
    rows = str(fm.group_table(labels, predictions)).split("\n\n")[0].splitlines()
    assert rows[1].split()[0] == "7"
    assert rows[-1] == "The 30 worst of 50; the run's metrics.json and, in Python, to_pandas() have all."
    assert len(rows) == 32


@pytest.mark.parametrize("groups", [None, [0, 1, 0, 1, 0, 1], {"a": [0, 1, 0, 1, 0, 1], "b": [0, 0, 0, 1, 1, 1]}])
def test_every_kind_of_table_prints(groups):
    table = fm.group_table(
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 0, 1, 1],
        groups,
        metrics={"mine": lambda y, p: float(np.mean(y == p))},
        intervals=fm.Intervals(draws=20),
    )
    text = str(table)
    assert "mine" in text
    assert ("mean TPR" in text) == (groups is not None)
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_narrow_terminal_gets_fewer_columns_and_no_other_number():
    table = fm.group_table([0, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 0], ["a", "a", "a", "b", "b", "b"])
    whole, narrow = table.text(), table.text(80)
    assert whole == str(table)
    assert max(map(len, narrow.split("\n\n")[0].split("\n"))) <= 80
    heads = narrow.split("\n")[0].split()
    assert heads == whole.split("\n")[0].split()[: len(heads)]
    assert len(table.text(10).split("\n")[0].split()) == 4  # group, n, positives and one rate


def test_columns_that_a_narrow_terminal_has_no_room_for_are_named():
    table = fm.group_table([1, 0] * 4, [1, 0] * 4, list("ab") * 4)
    assert "FPR" in table.text(120).split("\n")[0]
    assert "want of width" not in table.text(120)
    narrow = table.text(40)
    assert "FPR" not in narrow.split("\n")[0]
    assert "Columns left out because the terminal is too narrow: TPR, FPR, selected." in narrow


def test_the_sentence_below_many_rows_costs_no_column():
    rng = np.random.default_rng(0)
    labels, predictions, groups = rng.integers(0, 2, 400), rng.integers(0, 2, 400), np.arange(400) % 100
    rows = fm.group_table(labels, predictions, groups).text(80).split("\n\n")[0].splitlines()
    assert rows[0].split() == ["group", "n", "positives", "accuracy", "TPR"]
    assert max(map(len, rows[:-1])) <= 80 < len(rows[-1])


def test_cells_fit_a_narrow_terminal_too():
    labels, groups = np.arange(60) % 3, np.repeat(["first group", "second group"], 30)
    table = fm.group_table(labels, np.roll(labels, 1) % 3, groups)
    _, cells, _, notes = table.text(80).split("\n\n")
    assert cells.split("\n")[0].split() == ["label,", "group", "n", "TPR", "FPR"]
    assert max(map(len, cells.split("\n"))) <= 80
    assert "Columns left out because the terminal is too narrow: selected." in notes
    assert "selected" in str(table)
