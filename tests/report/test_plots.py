import re

import numpy as np

from fairweight.report import plots


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
