"""The tables of docs/audit.md are those of their records, each with its spread, command, device and commit."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["suspects", "condense", "arena_page"])
def test_the_page_is_that_of_the_records(script, tmp_path, name):
    page = tmp_path / "audit.md"
    page.write_text((ROOT / "docs" / "audit.md").read_text())
    script(name).fill(page, ROOT / "records")
    assert page.read_text() == (ROOT / "docs" / "audit.md").read_text(), "run: make docs"


def test_a_spread_that_rounds_to_nothing_is_not_shown_as_none(script):
    with_error = script("suspects").with_error
    assert with_error({"mean": 0.99943, "standard_error": 0.00004}, 1, 4) == "0.9994 ± <0.0001"
    assert with_error({"mean": 0.98737, "standard_error": 0.0032}, 100, 1) == "98.7 ± 0.3"


def test_ours_of_a_later_file_stands_beside_the_peers_of_an_earlier_record(script):
    record = script("arena_record")
    about = {"set": "bank", "noise": "group", "exemplars": "600 even"}
    earlier = {"rows": [{**about, "seeds": {"10": {"fairweight": {"auc": 0.8}, "peer": {"auc": 0.7}}}}]}
    task = {"kind": "ours", "name": "bank", "noise": "group", "exemplars": "600 even", "seed": 10}
    entries = [*record.entries_of(earlier), {"task": task, "found": {"fairweight": {"auc": 0.9}}}]
    ((found, seeds),) = record.grouped(entries, ("draw", "ours"), ("name", "noise", "exemplars"))
    assert found == about
    assert seeds == {"10": {"fairweight": {"auc": 0.9}, "peer": {"auc": 0.7}, record.BEFORE: {"auc": 0.8}}}
