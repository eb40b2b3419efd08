"""Colours of the page: distinguishable by people who see few of them, and readable on the page's ground."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

STYLE = files("fairweight.report").joinpath("page.css").read_text()
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SEEN = {
    "by most": np.eye(3),
    "without red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "without green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "without blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def palettes():
    """The colours by name, of light and of dark pages."""
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE)
    return {"light": {name: one for name, one, _ in found}, "dark": {name: one for name, _, one in found}}


def linear(colour):
    value = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b*, in which distances are about as large as they look."""
    rgb_to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(rgb_to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def apart(one, other, seen):
    first, second = (lab(np.array(SEEN[seen]) @ linear(colour)) for colour in (one, other))
    return float(np.linalg.norm(first - second))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_what_means_opposite_things_is_told_apart(page, seen):
    colours = palettes()[page]
    assert apart(colours["up"], colours["down"], seen) > 25
    assert apart(colours["series-0"], colours["series-1"], seen) > 25  # this run and plain training


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_lines_of_one_style_have_colours_that_are_told_apart(page, seen):
    colours = palettes()[page]
    for one, other in combinations(range(8), 2):
        if one % 3 == other % 3:  # the others differ in their dashes
            assert apart(colours[f"series-{one}"], colours[f"series-{other}"], seen) > 10, (one, other)


@pytest.mark.parametrize("page", ["light", "dark"])
def test_words_and_lines_stand_out_from_the_page(page):
    colours = palettes()[page]

    def contrast(name):
        one, ground = (float(linear(colours[c]) @ [0.2126, 0.7152, 0.0722]) for c in (name, "page"))
        return (max(one, ground) + 0.05) / (min(one, ground) + 0.05)

    assert all(contrast(name) >= 4.5 for name in ("ink", "faint", "link", "act", "look", "good", "note"))
    assert all(contrast(f"series-{k}") >= 3 for k in range(8))
