"""The public names and the flags of the command line are those that are kept; a change is one for every user."""

from __future__ import annotations

import difflib

import pytest
from tests.golden.cases import HOW_TO_WRITE
from tests.golden.snapshots import SNAPSHOTS


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.stem)
def test_what_users_rely_on_is_as_it_was(path):
    kept, found = path.read_text(), SNAPSHOTS[path]()
    lines = difflib.unified_diff(kept.splitlines(), found.splitlines(), "golden", "now", lineterm="", n=0)
    assert found == kept, "\n".join([f"{path.name} differs. {HOW_TO_WRITE}", *lines])
