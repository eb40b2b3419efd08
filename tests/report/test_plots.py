import re

import numpy as np

from fairweight.report import plots

NASTY = "$x_1$ 你 <script>alert(1)</script>"


def group(name, value):
    return {"group": name, "tpr": value, "tpr_low": value - 0.1, "tpr_high": min(1, value + 0.1)}


def test_names_are_text_whatever_they_look_like():
    found = plots.intervals_by_group([group(NASTY, 0.5), group("_hidden", 0.7)], "tpr", "TPR")
    assert "<script" not in found
    assert "$x_1$ 你 &lt;script&gt;" in found  # and no mathematics was made of it
    assert "_hidden" in found


def test_colours_are_the_pages_own():
    found = plots.lines(np.ones((3, 9)), "y", "words", even=1.0)
    assert not re.search("#0[0-9a-f]{5}", found)
    assert "var(--series-0)" in found
    assert "currentColor" in found
    assert "<style" not in found
    assert 'role="img"' in found


def test_the_same_numbers_draw_the_same_picture():
    values = np.arange(12.0).reshape(4, 3)
    assert plots.lines(values, "y", "words") == plots.lines(values, "y", "words")


def test_a_histogram_of_one_value_and_of_unknown_ones_is_drawn():
    assert "<svg" in plots.histogram({"all": np.array([1.0, 1.0, np.nan])}, "score", "words")
    assert "<svg" in plots.histogram({"all": np.array([np.nan])}, "score", "words")


def test_of_many_groups_the_worst_are_drawn():
    found = plots.intervals_by_group([group(f"name{k}x", k / 100) for k in range(60)], "tpr", "TPR", most=25)
    assert "name0x" in found
    assert "name30x" not in found


def test_unknown_rates_are_left_out():
    groups = [group("seen", 0.5), {"group": "empty", "tpr": None, "tpr_low": None, "tpr_high": None}]
    assert "empty" not in plots.intervals_by_group(groups, "tpr", "TPR")
