"""Prose that compares rows is checked against the records that it speaks of.

A comparison carries a comment that says it in keys, and a paragraph with words of comparison carries at least one:

    <!-- holds: lb < uniform in tprd, significantly -->                       in the notes beside a record
    <!-- holds cifar10, short: forml > uniform in tprd -->             in another page: the section of docs/results.md
    <!-- only: forml-refit of forml* < uniform in tprd, significantly -->     no other row of that pattern does

Rows are compared seed by seed; "significantly" is p < 0.05 of the paired t-test, "not significantly" the opposite.
"""

import fnmatch
import re
from pathlib import Path

import pytest

from fairweight.paper.records import grouped, read_all, section_name
from fairweight.runs.statistics import by_seed, mean_of, paired

ROOT = Path(__file__).resolve().parents[2]
CLAIM = re.compile(
    r"<!-- (holds|only)(?: ([^:]+))?: ([\w-]+)(?: of ([\w*-]+))? ([<>]) ([\w-]+) in (\w+)"
    r"(, significantly|, not significantly)? -->"
)
COMPARES = re.compile(r"\b(below|lowers|lower TPRD|less TPRD|less than|beats?|only|closes)\b")


@pytest.fixture(scope="module")
def tables():
    return grouped(read_all(ROOT / "records"))


def texts():
    """By path: the notes beside records, and the pages whose prose was typed."""
    return {path: path.read_text(encoding="utf-8") for path in
            (*sorted((ROOT / "records").glob("*/notes.md")), ROOT / "docs" / "headline.md")}  # fmt: skip


def is_so(record, row, sign, other, number, sure):
    rows = {entry["key"]: entry for entry in record["rows"]}
    assert {row, other} <= rows.keys(), f"{section_name(record)} has no {row} or {other}"
    found = paired(by_seed(rows[row], number), by_seed(rows[other], number))
    apart = found["mean"]
    if apart is None:  # no seed of both
        apart = mean_of(rows[row], number).value - mean_of(rows[other], number).value
    if sure == ", not significantly":
        return (apart < 0) == (sign == "<") and (found["p"] is None or found["p"] >= 0.05)
    return (apart < 0) == (sign == "<") and (not sure or (found["p"] is not None and found["p"] < 0.05))


def test_comparisons_hold_in_the_records(tables):
    sections = {section_name(record): record for record in tables}
    claims = 0
    for path, text in texts().items():
        own = next((record for record in tables if path.parent.name in record["from"]), None)
        for kind, section, row, pattern, sign, other, number, sure in CLAIM.findall(text):
            record = sections[section] if section else own
            assert record is not None, f"{path}: name the section"
            claims += 1
            said = f"{path.relative_to(ROOT)}: {row} {sign} {other} in {number}{sure}"
            assert is_so(record, row, sign, other, number, sure), said
            if kind == "only":
                every = [entry["key"] for entry in record["rows"]]
                others = [key for key in fnmatch.filter(every, pattern) if key != row]
                assert others
                assert not any(is_so(record, key, sign, other, number, sure) for key in others), f"not the only: {said}"
    assert claims > 15


def test_paragraphs_that_compare_say_what_is_checked():
    for path, text in texts().items():
        assert text.count("<!-- holds") + text.count("<!-- only") == len(CLAIM.findall(text)), f"{path}: no such claim"
        prose = re.sub(r"<!-- records:.*?<!-- /records:\w+ -->", "", text, flags=re.DOTALL)
        for paragraph in re.split(r"\n\n|\n(?=- )", prose):
            bare = re.sub(r"<!--.*?-->", "", paragraph)
            assert CLAIM.search(paragraph) or not COMPARES.search(bare), f"{path.relative_to(ROOT)}: {bare[:90]}"


def test_a_false_claim_is_found(tables):
    record = next(record for record in tables if section_name(record) == "cifar10, short")
    assert is_so(record, "lb", "<", "uniform", "tprd", ", significantly")
    assert not is_so(record, "lb", ">", "uniform", "tprd", "")
    assert not is_so(record, "forml", "<", "uniform", "tprd", "")
