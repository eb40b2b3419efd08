"""Every printed number stands in published.toml, checked against the paper's own source."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from fairweight import catalog
from fairweight.paper import published

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(\d+\.?\d*)\s*\\pm\s*(\d+\.?\d*)")


def paper() -> str:
    named = os.environ.get("FAIRWEIGHT_PAPER")
    for path in ([Path(named)] if named else []) + [ROOT.parent / "shared" / "paper" / "forml.tex"]:
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            return "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in lines)  # drafts in comments are not printed
    pytest.skip("the paper's source is not in FAIRWEIGHT_PAPER or ../shared/paper/forml.tex")


def printed_tables(text: str) -> dict[str, tuple[dict[str, list[tuple[float, float]]], int]]:
    """By label: rows of (mean, error), and the number of runs."""
    found = {}
    for block in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, flags=re.DOTALL):
        label = re.search(r"\\label\{(.*?)\}", block).group(1)
        runs = int(re.search(r"(\d+) runs", block).group(1))
        rows = {}
        for line in re.search(r"\\midrule(.*?)\\end\{tabular\}", block, flags=re.DOTALL).group(1).split(r"\\"):
            plain = re.sub(r"\\(?:bottomrule|midrule|toprule|bm)\b|[{}$]", "", line)
            name, *cells = (part.strip() for part in plain.split("&"))
            if cells:
                rows[name.replace("L_1", "L1")] = [tuple(map(float, NUMBER.search(cell).groups())) for cell in cells]
        found[label] = (rows, runs)
    return found


def test_every_table_of_the_source_is_here_with_every_number():
    source = printed_tables(paper())
    entries = tomllib.loads(published.PAGE.read_text(encoding="utf-8"))["tables"]
    ours = {entry["label"]: name for name, entry in entries.items() if "runs" in entry}
    assert ours.keys() == source.keys()
    for label, (rows, runs) in source.items():
        table = published.tables()[ours[label]]
        assert table.keys() == rows.keys(), label
        for name, numbers in rows.items():
            here = table[name]
            assert list(here) == ["tprd", "max_fnr", "accuracy"], (label, name)
            assert [(n.value, n.error) for n in here.values()] == numbers, (label, name)
            assert {n.runs for n in here.values()} == {runs}, (label, name)


def test_the_two_numbers_of_a_sentence_are_here():
    section = paper().split(r"\label{expanded-mnist-corrupt}")[1]
    uniform = re.search(r"uniform weights, the ratio of the losses.*?is \$([\d.]+)\$", section).group(1)
    forml = re.search(r"FORML has a ratio of \$([\d.]+)\$", section).group(1)
    rows = published.tables()["mnist-loss-ratio"]
    assert rows["Uniform"]["loss_ratio"].value == float(uniform) == 2.9
    assert rows["FORML"]["loss_ratio"].value == float(forml) == 2.61


def test_every_printed_table_can_be_reproduced():
    assert set(published.tables()) <= set(catalog.names("paper.tables"))
