"""The tables of a record, for a terminal and for pages in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairweight.paper.plan import size_line
from fairweight.runs.statistics import BESIDE, ENDPOINTS, mean_text

WIDTH = 110
TESTS = {"p": "t", "p_holm": "Holm", "wilcoxon": "Wilcoxon"}
MARKS = "* p < 0.05 by the paired t-test; ** also after Holm's correction, which the endpoints TPRD and std have"
Record = Mapping[str, Any]
Shown = tuple[list[str], list[list[str]]]  # titles, and the cells of each row


def markdown(titles: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    named = list(titles)
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in (named, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(named), *lines[1:]])


def seeds_text(n: int) -> str:
    """How many seeds, in words."""
    return f"{n} seed" if n == 1 else f"{n} seeds"


def difference_text(entry: Mapping[str, Any]) -> str:
    """A difference with its error and p-values: "-1.53 ± 0.42 (p 0.01)"."""
    tests = {**TESTS, "p": "p"}
    shown = [f"{words} {entry[key]:.2g}" for key, words in tests.items() if entry.get(key) is not None]
    return _signed(entry) + (f" ({', '.join(shown)})" if shown else "")


def marked(entry: Mapping[str, Any]) -> str:
    """A difference with its error and a mark: * for p < 0.05, ** if that is so after Holm's correction too."""
    below = [entry.get(key) is not None and entry[key] < 0.05 for key in ("p", "p_holm")]
    return _signed(entry) + (" **" if all(below) else " *" if below[0] else "")


def _signed(entry: Mapping[str, Any]) -> str:
    text = mean_text(entry)
    return text if entry["mean"] is None or text.startswith("-") else f"+{text}"


def share_text(share: float | None, interval: Iterable[float] | None = None) -> str:
    """A share in whole percent, with its interval; what rounds to nothing has no sign."""
    limits = "" if interval is None else f" [{', '.join(str(round(limit)) for limit in interval)}]"
    return "–" if share is None else f"{round(share)} %{limits}"


def beside_text(row: Mapping[str, Any], key: str) -> str:
    """A number that stands beside; one that its digits would hide is written in two figures."""
    if key not in row["beside"]:
        return "–"
    value, digits = row["beside"][key]["mean"], BESIDE[key][1]
    return f"{value:.{digits}f}" if digits == 0 or value == 0 or abs(value) >= 10.0**-digits else f"{value:.1e}"


def means_table(record: Record) -> Shown:
    """Each row's means; where rows differ in what they train on, with that."""
    rows, numbers = record["rows"], record["numbers"]
    places = {row["key"]: _place(row, rows) for row in rows}
    shown = len(set(places.values())) > 1
    titles = ["row", "n", *(["trains on"] if shown else [])]
    titles += [number["title"] + (f", {number['unit']}" if number["unit"] else "") for number in numbers]
    spread = ["tpr_std"] if any("tprd" in row["means"] and "tpr_std" in row["beside"] for row in rows) else []
    cells = []
    for row in rows:
        entries = [row["means"][number["key"]] for number in numbers]
        line = [row["title"], str(max((entry["n"] for entry in entries), default=0))]
        line += [places[row["key"]]] if shown else []
        cells.append([*line, *map(mean_text, entries), *(mean_text(row["beside"].get(key, {})) for key in spread)])
    return [*titles, *(BESIDE[key][0] for key in spread)], cells


def _place(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What a row is trained on, as far as its data says."""
    if row.get("moved"):
        row = next(other for other in rows if other["key"] == row["moved"]["of"])
    inside = ((row["spec"] or {}).get("data") or {}).get("exemplar", {}).get("inside")
    return {True: "all rows", False: "all but the exemplars"}.get(inside, "")


def printed_table(record: Record, *, why: bool = False) -> Shown:
    """What is printed of the same row, and how ours stands to it; why: with the reason of each verdict."""
    numbers = record["numbers"] if record["whole"] else []
    rows = []
    for row in record["rows"]:
        entries = [row["means"][number["key"]] for number in numbers]
        if any("verdict" in entry for entry in entries):
            reasons = [f" ({entry['why']})" if why and "why" in entry else "" for entry in entries]
            pairs = zip(entries, reasons, strict=True)
            cells = [f"{mean_text(e['printed'])}: {e['verdict']}{r}" if "verdict" in e else "–" for e, r in pairs]
            rows.append([row["title"], *cells])
    return ["printed: ours is", *(number["title"] for number in numbers)], rows


def more_tables(record: Record) -> list[Shown]:
    """Differences seed by seed, shares of the way, p-values and other numbers: the tables that have rows."""
    every = (_differences(record), _gap_closed(record), _p_values(record), _other_numbers(record))
    return [(titles, rows) for titles, rows in every if rows]


def _comparisons(record: Record) -> list[tuple[list[str], Mapping[str, Any], int]]:
    """Of each pair of rows that are compared: their titles, what was found by number, and over how many seeds."""
    titles = {row["key"]: row["title"] for row in record["rows"]}
    pairs = [([row["title"], titles[key]], found) for row in record["rows"] for key, found in row["compared"].items()]
    return [(pair, found, max((entry["n"] for entry in found.values()), default=0)) for pair, found in pairs]


def _compared_by(record: Record) -> dict[str, str]:
    """Titles of the numbers that rows are compared by: the table's own, and the endpoints."""
    names = {number["key"]: number["title"] for number in record["numbers"]}
    known = {key for _, found, _ in _comparisons(record) for key in found}
    return names | {key: "std" for key in ENDPOINTS if key in known and key not in names}


def _differences(record: Record) -> Shown:
    names = _compared_by(record)
    rows = [
        [*pair, str(n), *(marked(found[key]) if key in found else "–" for key in names)]
        for pair, found, n in _comparisons(record)
        if n
    ]
    return ["difference by seed", "compared with", "n", *names.values()], rows


def _p_values(record: Record) -> Shown:
    names, pairs = _compared_by(record), _comparisons(record)
    entries = [entry for _, found, _ in pairs for entry in found.values()]
    known = [test for test in TESTS if any(entry.get(test) is not None for entry in entries)]
    tests = {key: [test for test in known if test != "p_holm" or key in ENDPOINTS] for key in names}

    def cell(entry: Mapping[str, Any], key: str) -> str:
        return " / ".join("–" if entry.get(test) is None else f"{entry[test]:.2g}" for test in tests[key])

    titles = [f"{title}: {' / '.join(TESTS[test] for test in tests[key])}" for key, title in names.items()]
    rows = [[*pair, *(cell(found.get(key, {}), key) for key in names)] for pair, found, n in pairs if n > 1]
    return ["p-values", "compared with", *titles], rows


def _gap_closed(record: Record) -> Shown:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    rows = []
    for key, found in record.get("gap_closed", {}).items():
        pairs = [(share_text(e["ours"], e["interval"]), share_text(e["printed"])) for e in found.values()]
        rows.append([titles[key], *(text for pair in pairs for text in pair)])
    share = "share of the gap to clean labels that is closed [95 %, bootstrap]"
    return [share, "TPRD", "printed", "accuracy", "printed"], rows


def _other_numbers(record: Record) -> Shown:
    rows = record["rows"]
    keys = [key for key in BESIDE if any(key in row["beside"] for row in rows) and key != "tpr_std"]
    cells = [[row["title"], *(beside_text(row, key) for key in keys)] for row in rows] if keys else []
    return ["other numbers", *(BESIDE[key][0] for key in keys)], cells


def text_of(record: Record) -> str:
    """The record for a terminal: ours beside printed, one block per number."""
    parts = [f"{record['table']}: {record['title']}\n{textwrap.fill(size_line(record), WIDTH)}"]
    if record["printed"] and not record["whole"]:
        parts[0] += "\nThe printed numbers are for the full size, so there is no verdict at this size."
    tables = (means_table(record), printed_table(record, why=True), *more_tables(record))
    for titles, rows in ((titles, rows) for titles, rows in tables if rows):
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (titles, *rows))
        parts.append("\n".join(lines))
    better = "; ".join(f"{number['title']}: {number['better']} is better" for number in record["numbers"])
    notes = [f"{better}. {MARKS}.", f"Differences by seed: {record['paired_test']}."]
    notes += [f"Verdict: {record['test']}."] if record["printed"] else []
    notes += [f"- {remark}" for remark in record["remarks"]]
    notes += [f"Options: {', '.join(f'{key}={value}' for key, value in record['options'].items())}."]
    return "\n\n".join([*parts, "\n".join(textwrap.fill(note, WIDTH) for note in notes)])
