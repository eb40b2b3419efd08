"""docs/methods.md has a section for every method, and says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairweight import catalog

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", catalog.names("methods"))
def test_a_section_with_what_a_reader_asks(name):
    text, kind = sections()[name], catalog.load("methods", name)
    assert "**When:**" in text
    line = next(line for line in PAGE.read_text().split("\n") if line.startswith(f"| [`{name}`]"))
    assert f"`{kind.__name__}`" in line
    _, _, _, groups, exemplars, *_ = line.split("|")
    assert ("train groups" in kind.needs) == groups.strip().startswith("yes")
    assert ("exemplar" in kind.needs) == exemplars.strip().startswith("a batch")
    assert ("exemplar set" in kind.needs) == exemplars.strip().startswith("whole set")
    for paper in re.findall(r"arXiv \d{4}\.\d{5}", kind.paper):
        assert paper in text


def test_the_place_for_records():
    assert PAGE.read_text().count("<!-- records:methods -->") == 1
