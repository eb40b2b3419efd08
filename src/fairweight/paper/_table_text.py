"""The tables of a record, for a terminal and for pages in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fairweight.paper.plan import size_line
from fairweight.runs.statistics import BESIDE, ENDPOINTS, mean_text

TESTS = {"p": "t", "p_holm": "Holm", "wilcoxon": "Wilcoxon"}
MARKS = "* p < 0.05 by the paired t-test; ** also after Holm's correction, which the endpoints TPRD and std have"
Record = Mapping[str, Any]
Cells = tuple[list[str], list[list[str]]]  # titles, and the cells of each row


def markdown(titles: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    header = list(titles)
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def seeds_text(n: int) -> str:
    """How many seeds, in words."""
    return f"{n} seed" if n == 1 else f"{n} seeds"


def difference_text(entry: Mapping[str, Any]) -> str:
    """A difference with its error and p-values: "-1.53 ± 0.42 (p 0.01)"."""
    tests = {**TESTS, "p": "p"}
    p_values = [f"{words} {entry[key]:.2g}" for key, words in tests.items() if entry.get(key) is not None]
    return _signed(entry) + (f" ({', '.join(p_values)})" if p_values else "")


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


def means_table(record: Record) -> Cells:
    """Each row's means; where rows differ in what they train on, with that."""
    rows, numbers = record["rows"], record["numbers"]
    trained_on = {row["key"]: _trained_on(row, rows) for row in rows}
    differs = len(set(trained_on.values())) > 1
    titles = ["row", "n", *(["trains on"] if differs else [])]
    titles += [number["title"] + (f", {number['unit']}" if number["unit"] else "") for number in numbers]
    spread = ["tpr_std"] if any("tprd" in row["means"] and "tpr_std" in row["beside"] for row in rows) else []
    cells = []
    for row in rows:
        entries = [row["means"][number["key"]] for number in numbers]
        line = [row["title"], str(max((entry["n"] for entry in entries), default=0))]
        line += [trained_on[row["key"]]] if differs else []
        cells.append([*line, *map(mean_text, entries), *(mean_text(row["beside"].get(key, {})) for key in spread)])
    return [*titles, *(BESIDE[key][0] for key in spread)], cells


def _trained_on(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What a row is trained on, as far as its data says."""
    if row.get("moved"):
        row = next(other for other in rows if other["key"] == row["moved"]["of"])
    inside = ((row["spec"] or {}).get("data") or {}).get("exemplar", {}).get("inside")
    return {True: "all rows", False: "all but the exemplars"}.get(inside, "")


def printed_table(record: Record, *, why: bool = False) -> Cells:
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


def more_tables(record: Record) -> list[Cells]:
    """Differences seed by seed, shares of the way, p-values and other numbers: the tables that have rows."""
    tables = (_differences(record), _gap_closed(record), _p_values(record), _other_numbers(record))
    return [(titles, rows) for titles, rows in tables if rows]


class _Comparison(NamedTuple):
    titles: list[str]  # of the two rows
    differences: Mapping[str, Any]  # by number

    @property
    def n(self) -> int:
        return max((entry["n"] for entry in self.differences.values()), default=0)


def _comparisons(record: Record) -> list[_Comparison]:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    pairs = [(row["title"], titles[key], found) for row in record["rows"] for key, found in row["compared"].items()]
    return [_Comparison([title, other], differences) for title, other, differences in pairs]


def _compared_by(record: Record) -> dict[str, str]:
    """Titles of the numbers that rows are compared by: the table's own, and the endpoints."""
    names = {number["key"]: number["title"] for number in record["numbers"]}
    known = {key for pair in _comparisons(record) for key in pair.differences}
    return names | {key: "std" for key in ENDPOINTS if key in known and key not in names}


def _differences(record: Record) -> Cells:
    names = _compared_by(record)
    rows = [
        [*pair.titles, str(pair.n), *(marked(pair.differences[k]) if k in pair.differences else "–" for k in names)]
        for pair in _comparisons(record)
        if pair.n
    ]
    return ["difference by seed", "compared with", "n", *names.values()], rows


def _p_values(record: Record) -> Cells:
    names, pairs = _compared_by(record), _comparisons(record)
    entries = [entry for pair in pairs for entry in pair.differences.values()]
    known = [test for test in TESTS if any(entry.get(test) is not None for entry in entries)]
    tests = {key: [test for test in known if test != "p_holm" or key in ENDPOINTS] for key in names}

    def cell(entry: Mapping[str, Any], key: str) -> str:
        return " / ".join("–" if entry.get(test) is None else f"{entry[test]:.2g}" for test in tests[key])

    titles = [f"{title}: {' / '.join(TESTS[test] for test in tests[key])}" for key, title in names.items()]
    rows = [[*pair.titles, *(cell(pair.differences.get(k, {}), k) for k in names)] for pair in pairs if pair.n > 1]
    return ["p-values", "compared with", *titles], rows


def _gap_closed(record: Record) -> Cells:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    rows = []
    for key, shares in record.get("gap_closed", {}).items():
        pairs = [(share_text(s["ours"], s["interval"]), share_text(s["printed"])) for s in shares.values()]
        rows.append([titles[key], *(text for pair in pairs for text in pair)])
    title = "share of the gap to clean labels that is closed [95 %, bootstrap]"
    return [title, "TPRD", "printed", "accuracy", "printed"], rows


def _other_numbers(record: Record) -> Cells:
    rows = record["rows"]
    keys = [key for key in BESIDE if any(key in row["beside"] for row in rows) and key != "tpr_std"]
    cells = [[row["title"], *(beside_text(row, key) for key in keys)] for row in rows] if keys else []
    return ["other numbers", *(BESIDE[key][0] for key in keys)], cells


def text_of(record: Record) -> str:
    """The record for a terminal: ours beside printed, one block per number."""
    parts = [f"{record['table']}: {record['title']}\n{size_line(record)}"]
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
    return "\n\n".join([*parts, "\n".join(notes)])
