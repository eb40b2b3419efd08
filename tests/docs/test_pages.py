"""What pages say is plain and true: no riddles, every abbreviation once in full, output as it comes out."""

from __future__ import annotations

import os
import re

import pytest
from tests.docs.generators import ROOT, generator

executed = generator("executed")

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "benchmarks").glob("*.md"))]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BANNED = {
    r"\bsurely\b": "significantly",
    r"\bfor \d[\d.]* points?\b": "costs 0.3 points",
    r"\bamounts? to [\d.]+ ?%": "effective sample size",
    r"\bthereby\b|\bwhereof\b|\bhereby\b": "a usual word",
    r"\bsession\b|\bhelper\b": "the project speaks of itself alone",
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_banned_words(path):
    text = path.read_text(encoding="utf-8")
    for pattern, better in BANNED.items():
        found = re.search(pattern, text, re.I)
        assert found is None, f"{path.name}: {found.group(0)!r}; write {better}"


def test_the_readme_is_short_and_expands_what_it_shortens():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 95
    for short, full in {"FORML": "Fairness Optimized Reweighting", "TPRD": "true positive rate discrepancy",
                        "maxFNR": "false negative rate"}.items():  # fmt: skip
        assert full in text
        assert text.index(full) <= text.index(short) + 120, f"{short} is used before it is spelled out"
    assert not re.search(r"^\| [^|]*--", text, re.M), "an option is no row's name"


def test_every_page_that_runs_is_listed_and_has_output():
    listed = set(executed.PAGES)
    for path in (ROOT / "docs").rglob("*.md"):
        if "```console\n" in path.read_text(encoding="utf-8"):
            assert str(path.relative_to(ROOT / "docs")) in listed
    for name in listed:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert re.search(r"```console\n\$ .*\n(?!\$|```)", text) or "```text\n" in text


def test_the_readme_shows_what_start_shows():
    assert executed.readme() == (ROOT / "README.md").read_text(encoding="utf-8"), "run `make tutorials`"


def test_another_line_or_number_is_noticed():
    shown = "TPRD 0.127 [0.040, 0.214]\nDone in 20 seconds.\n"
    assert executed.differences(shown, "TPRD 0.128  [0.040, 0.214]\nDone in 33 seconds.\n") == []
    assert executed.differences(shown, "TPRD 0.327 [0.040, 0.214]\nDone in 20 seconds.\n")
    assert executed.differences(shown, "TPRD 0.127 [0.040, 0.214]\n")
    assert executed.differences(shown, "gap 0.127 [0.040, 0.214]\nDone in 20 seconds.\n")


def test_a_count_may_differ_by_one_sample_alone():
    assert executed.differences("24 more are hard\n", "25 more are hard\n") == []
    assert executed.differences("24 more are hard\n", "26 more are hard\n")
    assert executed.differences("2 of 3 classes\n", "3 of 3 classes\n")
    assert executed.differences("gap 24.0\n", "gap 25.0\n")


def test_one_sample_may_be_predicted_otherwise_where_training_makes_rounding_large():
    shown = "1 36 0.861 [0.713, 0.939]\ngap 34.29 to 8.33, 24 more\nloss 0.1947, std 1.089\n"
    flipped = "1 36 0.889 [0.747, 0.956]\ngap 37.14 to 8.33, 26 more\nloss 0.1951, std 1.092\n"
    assert len(executed.differences(shown, flipped)) == 2
    assert executed.differences(shown, flipped, 1 / 25) == []
    for old, new in {"0.861": "0.802", "34.29": "41.0", "24 more": "27 more", "1.089": "1.189"}.items():
        assert executed.differences(shown, shown.replace(old, new), 1 / 25)


def test_equals_in_a_ranking_may_change_places():
    shown = "rank row suspicion\n   1 441      0.988\n   2 565      0.988\n\nrow 441\n"
    assert executed.differences(shown, "rank row suspicion\n1 565 0.988\n2 441 0.988\n\nrow 441\n") == []
    assert executed.differences(shown, "rank row suspicion\n1 565 0.988\n2 none 0.988\n\nrow 441\n")
    assert executed.differences(shown, shown.replace("row 441", "row 565")), "the ranking is over"


def test_learned_weights_help_another_trainer_on_the_page():
    page = (ROOT / "docs" / "tutorials" / "scikit-learn.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^(plain|learned weights) +(accuracy .*)$", page, re.M))
    plain, learned = ([float(n) for n in _numbers(rows[name])] for name in ("plain", "learned weights"))
    assert learned[0] > plain[0] + 0.005
    assert learned[1] < 0.8 * plain[1]


def _numbers(line: str) -> list[str]:
    return re.findall(r"\d\.\d+", line)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in executed.PAGES if n not in executed.NEEDS_DATA])
def test_pages_show_what_comes_out(name):
    path = ROOT / "docs" / name
    found, pictures = executed.run_page(path)
    sample = executed.ONE_SAMPLE.get(name, 0.0)
    assert executed.differences(path.read_text(encoding="utf-8"), found, sample) == [], "run `make tutorials`"
    assert set(pictures) == set(re.findall(r"!\[[^\]]*\]\((pictures/[\w.-]+)\)", found))
    assert all((path.parent / link).is_file() for link in pictures)


@pytest.mark.skipif("FAIRWEIGHT_EVERY_PAGE" not in os.environ, reason="takes minutes: FAIRWEIGHT_EVERY_PAGE=1 runs it")
@pytest.mark.parametrize("name", executed.NEEDS_DATA)
def test_pages_on_real_data_show_what_comes_out(name):
    path = ROOT / "docs" / name
    found, _ = executed.run_page(path)
    assert executed.differences(path.read_text(encoding="utf-8"), found) == [], "run `make tutorials`"
