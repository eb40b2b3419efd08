"""The tables of a record, for a terminal and for pages in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairweight.paper.plan import is_whole, size_line
from fairweight.runs.statistics import BESIDE, ENDPOINTS, mean_text

WIDTH = 110
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


def printed_text(entry: Mapping[str, Any]) -> str:
    """The printed number beside a mean of ours."""
    return mean_text(entry.get("printed") or {})


def difference_text(entry: Mapping[str, Any]) -> str:
    """A difference with its error and p-value: "-1.53 ± 0.42 (p 0.01)"."""
    if entry["mean"] is None:
        return "–"
    error = "" if entry["standard_error"] is None else f" ± {entry['standard_error']:.2f}"
    tests = {"p": "p", "p_holm": "Holm", "wilcoxon": "Wilcoxon"}
    told = [f"{words} {entry[key]:.2g}" for key, words in tests.items() if entry.get(key) is not None]
    return f"{entry['mean']:+.2f}{error}" + (f" ({', '.join(told)})" if told else "")


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


def main_table(record: Record, numbers: Sequence[Mapping[str, Any]], *, why: bool = False) -> Shown:
    """These numbers of ours beside printed ones; why: with the reason of each verdict."""
    titles, printed = ["row", "n"], ["printed", "verdict"] if record["printed"] else []
    for number in numbers:
        titles += [number["title"] + (f", {number['unit']}" if number["unit"] else ""), *printed]
    rows = []
    for row in record["rows"]:
        entries = [row["means"][number["key"]] for number in numbers]
        cells = [row["title"], str(max((entry["n"] for entry in entries), default=0))]
        for entry in entries:
            reason = f" ({entry['why']})" if why and "why" in entry else ""
            beside = [printed_text(entry), entry.get("verdict", "–") + reason] if printed else []
            cells += [mean_text(entry), *beside]
        rows.append(cells)
    return titles, rows


def more_tables(record: Record) -> Iterator[Shown]:
    """What stands beside the numbers, differences seed by seed, and shares of the way."""
    rows, titles = record["rows"], {row["key"]: row["title"] for row in record["rows"]}
    if keys := [key for key in BESIDE if any(key in row["beside"] for row in rows)]:
        cells = [[row["title"], *(beside_text(row, key) for key in keys)] for row in rows]
        yield ["other numbers", *(BESIDE[key][0] for key in keys)], cells
    names = {number["key"]: number["title"] for number in record["numbers"]}
    known = {key for row in rows for found in row["compared"].values() for key in found}
    names |= {key: "std" for key in ENDPOINTS if key in known and key not in names}
    apart = [
        [row["title"], titles[other], *(difference_text(found[key]) if key in found else "–" for key in names)]
        for row in rows
        for other, found in row["compared"].items()
        if any(entry["n"] for entry in found.values())
    ]
    if apart:
        yield ["difference by seed", "compared with", *names.values()], apart
    closed = []
    for key, found in record.get("gap_closed", {}).items():
        pairs = [(share_text(e["ours"], e["interval"]), share_text(e["printed"])) for e in found.values()]
        closed.append([titles[key], *(text for pair in pairs for text in pair)])
    if closed:
        share = "share of the gap to clean labels that is closed [95 %, bootstrap]"
        yield [share, "TPRD", "printed", "accuracy", "printed"], closed


def text_of(record: Record) -> str:
    """The record for a terminal: ours beside printed, one block per number."""
    parts = [f"{record['table']}: {record['title']}\n{textwrap.fill(size_line(record), WIDTH)}"]
    if record["printed"] and not is_whole(record):
        parts[0] += "\nThe printed numbers are for the full size, so there is no verdict at this size."
    numbers = [{**number, "title": f"{number['title']} ({number['better']} is better)"} for number in record["numbers"]]
    for titles, rows in (*(main_table(record, [number], why=True) for number in numbers), *more_tables(record)):
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (titles, *rows))
        parts.append("\n".join(lines))
    notes = [f"Differences by seed: {record['paired_test']}."]
    notes += [f"Verdict: {record['test']}."] if record["printed"] else []
    notes += [f"- {remark}" for remark in record["remarks"]]
    notes += [f"Options: {', '.join(f'{key}={value}' for key, value in record['options'].items())}."]
    return "\n\n".join([*parts, "\n".join(textwrap.fill(note, WIDTH) for note in notes)])
