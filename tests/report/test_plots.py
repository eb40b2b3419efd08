import re

import numpy as np
import pytest

from fairweight.report import plots


def test_colours_are_the_pages_own():
    found = plots.lines(np.ones((3, 9)), "y", "words", range(9), even=1.0)
    assert not re.search("#[0-9a-f]{3}", found)
    assert {int(place) for place in re.findall(r"--series-(\d)", found)} == set(range(8))
    assert 'role="img"' in found


def test_lines_that_share_a_colour_or_look_alike_to_some_have_styles():
    found = plots.lines(np.ones((3, 9)), "y", "words", range(9))
    looks = re.findall(r'class="series" style="(.*?)"', found)
    assert len(set(looks)) == 9


@pytest.mark.parametrize("values", [[0.0, 1.0], [3.0, 3.0], [-2.31, 17.9], [1e-6, 2e-6], [0.0, 60_000.0], []])
def test_ticks_are_round_few_and_hold_everything(values):
    found = plots.ticks(values)
    assert 2 <= len(found) <= 9
    assert np.allclose(np.diff(found), found[1] - found[0])
    if values:
        assert found[0] <= min(values) <= max(values) <= found[-1]


def test_numbers_stand_where_the_ticks_say():
    axes = plots.Axes([0, 5, 10], [1, 2])
    assert [axes.x(v) for v in (0, 5, 10)] == [plots.LEFT, (plots.LEFT + plots.RIGHT) / 2, plots.RIGHT]
    assert [axes.y(v) for v in (1, 2)] == [plots.BOTTOM, plots.TOP]  # a canvas counts down


def test_titles_are_text():
    assert "<script" not in plots.lines(np.ones((3, 1)), "<script>", "<script>", [0])


def test_a_histogram_of_one_value_and_of_unknown_ones_is_drawn():
    assert "<svg" in plots.histogram({"all": np.array([1.0, 1.0, np.nan])}, "score", "words")
    assert "<svg" in plots.histogram({"all": np.array([np.nan])}, "score", "words")
