"""Prose that compares rows is checked against the records that it speaks of.

A comparison carries a comment that says it in keys, and a paragraph with words of comparison carries at least one:

    <!-- holds: lb < uniform in tprd, significantly -->                       in the notes beside a record
    <!-- holds cifar10, short: forml > uniform in tprd -->             in another page: the page of docs/results/, or
                                                                       demo, or the name of a comparison of methods
    <!-- only: forml-refit of forml* < uniform in tprd, significantly -->     no other row of that pattern does
    <!-- is 2026-11-15_condense: rules/0/arms/kept/tprd/mean > 6 -->           a number of any record beside a value, or
                                                                              beside another number of it

Rows are compared seed by seed. "significantly" is p < 0.05 of the paired t-test, after Holm's correction where the
table has one; "by one test" is p < 0.05 before that correction and not after it; "not significantly" is p >= 0.05.
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
    r"(, significantly|, not significantly|, by one test)? -->"
)
VALUE = re.compile(r"<!-- is ([\w-]+): (\S[^<>]*?) ([<>]) (\S.*?) -->")
COMPARES = re.compile(
    r"\b(below|lowers|lower TPRD|less TPRD|less than|less accura\w+|beats?|the only|closes|better than|no better|"
    r"worse than|more accura\w+|more even|exceeds|as well as|do harm|no more evenness)\b"
)


@pytest.fixture(scope="module")
def found():
    return read_all(ROOT / "records")


@pytest.fixture(scope="module")
def tables(found):
    return grouped(found)


@pytest.fixture(scope="module")
def sections(found, tables):
    """By the name that a claim calls it."""
    compared = {record["name"]: record for record in found.values() if record.get("kind") == "compare"}
    demo = [record["rows"] for record in found.values() if record.get("kind") == "demo"][-1]
    rows = [{"key": re.sub(r"\W+", "-", title.lower()), "means": row, "seeds": {}} for title, row in demo.items()]
    return {section_name(record): record for record in tables} | compared | {"demo": {"rows": rows}}


def texts():
    """By path: the notes beside records, and the pages whose prose was typed."""
    typed = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("headline.md", "what-failed.md"))]
    notes = sorted((ROOT / "records").glob("*/notes.md"))
    return {path: path.read_text(encoding="utf-8") for path in (*notes, *typed)}


def is_so(record, row, sign, other, number, sure):
    rows = {entry["key"]: entry for entry in record["rows"]}
    assert {row, other} <= rows.keys(), f"there is no {row} or {other}"
    apart = paired(by_seed(rows[row], number), by_seed(rows[other], number))
    if apart["mean"] is None:  # no seed of both
        first, second = (e["means"][number]["mean"] if number in e["means"] else mean_of(e, number).value
                         for e in (rows[row], rows[other]))  # fmt: skip
        apart["mean"] = first - second
    in_table = rows[row].get("compared", {}).get(other) or rows[other].get("compared", {}).get(row) or {}
    single = apart["p"] is not None and apart["p"] < 0.05
    corrected = in_table.get(number, {}).get("p_holm")
    after = single if corrected is None else corrected < 0.05
    grade = {", significantly": after, ", by one test": single and not after, ", not significantly": not single}
    return (apart["mean"] < 0) == (sign == "<") and grade.get(sure, True)


def test_comparisons_hold_in_the_records(tables, sections):
    claims = 0
    wrong = []
    for path, text in texts().items():
        own = next((record for record in tables if path.parent.name in record["from"]), None)
        for kind, section, row, pattern, sign, other, number, sure in CLAIM.findall(text):
            record = sections[section] if section else own
            assert record is not None, f"{path}: name the section"
            claims += 1
            said = f"{path.relative_to(ROOT)}: {row} {sign} {other} in {number}{sure}"
            if not is_so(record, row, sign, other, number, sure):
                wrong.append(said)
            if kind == "only":
                every = [entry["key"] for entry in record["rows"]]
                others = [key for key in fnmatch.filter(every, pattern) if key != row]
                assert others
                assert not any(is_so(record, key, sign, other, number, sure) for key in others), f"not the only: {said}"
    assert not wrong, "\n".join(wrong)
    assert claims > 40


def value_of(record, words):
    """A number, or what lies at this path in the record."""
    try:
        return float(words)
    except ValueError:
        for step in words.split("/"):
            record = record[int(step)] if isinstance(record, list) else record[step]
        return float(record)


def test_values_are_as_the_records_have_them(found):
    claims = [claim for text in texts().values() for claim in VALUE.findall(text)]
    for name, left, sign, right in claims:
        first, second = (value_of(found[name], words) for words in (left, right))
        assert first < second if sign == "<" else first > second, f"{name}: {left} {sign} {right}"
    assert len(claims) == sum(text.count("<!-- is ") for text in texts().values()) > 3


def test_paragraphs_that_compare_say_what_is_checked():
    silent = []
    for path, text in texts().items():
        assert text.count("<!-- holds") + text.count("<!-- only") == len(CLAIM.findall(text)), f"{path}: no such claim"
        prose = re.sub(r"<!-- records:.*?<!-- /records:\w+ -->", "", text, flags=re.DOTALL)
        prose = re.sub(r"<!-- executed -->.*?<!-- /executed -->|^```.*?^```", "", prose, flags=re.DOTALL | re.MULTILINE)
        for paragraph in re.split(r"\n\n|\n(?=- |\| )", prose):
            bare = re.sub(r"<!--.*?-->", "", paragraph)
            if not CLAIM.search(paragraph) and not VALUE.search(paragraph) and COMPARES.search(bare):
                silent.append(f"{path.relative_to(ROOT)}: {bare.strip()[:140]}")
    assert not silent, "\n".join(silent)


def test_a_false_claim_is_found(tables):
    record = next(record for record in tables if section_name(record) == "cifar10, short")
    assert is_so(record, "lb", "<", "uniform", "tprd", ", significantly")
    assert not is_so(record, "lb", ">", "uniform", "tprd", "")
    assert not is_so(record, "forml", "<", "uniform", "tprd", "")
    assert is_so(record, "forml-refit", "<", "uniform", "tprd", ", by one test")
    assert not is_so(record, "forml-refit", "<", "uniform", "tprd", ", significantly"), "not after Holm's correction"
