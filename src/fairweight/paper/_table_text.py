"""A record of a table for a terminal, and the cells and Markdown tables of pages."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairweight.runs.statistics import BESIDE, ENDPOINTS, mean_text

WIDTH = 110
Record = Mapping[str, Any]


def markdown(titles: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    named = list(titles)
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in (named, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(named), *lines[1:]])


def seeds_text(n: int) -> str:
    """How many seeds, in words."""
    return f"{n} seed" if n == 1 else f"{n} seeds"


def printed_text(entry: Mapping[str, Any]) -> str:
    """The printed number that stands beside a mean of ours."""
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


def more_tables(record: Record) -> Iterator[tuple[list[str], list[list[str]]]]:
    """What stands beside the numbers, differences seed by seed, and shares of the way: titles and cells of each."""
    rows, titles = record["rows"], {row["key"]: row["title"] for row in record["rows"]}
    if keys := [key for key in BESIDE if any(key in row["beside"] for row in rows)]:
        cells = [[row["title"], *(beside_text(row, key) for key in keys)] for row in rows]
        yield ["beside it", *(BESIDE[key][0] for key in keys)], cells
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
        yield ["difference, seed by seed", "from", *names.values()], apart
    closed = []
    for key, found in record.get("gap_closed", {}).items():
        pairs = [(share_text(e["ours"], e["interval"]), share_text(e["printed"])) for e in found.values()]
        closed.append([titles[key], *(text for pair in pairs for text in pair)])
    if closed:
        share = "share of the way from corrupted to clean [95 %, bootstrap]"
        yield [share, "TPRD", "printed", "accuracy", "printed"], closed


def aligned(titles: list[str], rows: list[list[str]]) -> Iterator[str]:
    """The lines of a table for a terminal."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)).rstrip()


def beside_text(row: Mapping[str, Any], key: str) -> str:
    """A number that stands beside; one that its digits would hide is written in two figures."""
    if key not in row["beside"]:
        return "–"
    value, digits = row["beside"][key]["mean"], BESIDE[key][1]
    return f"{value:.{digits}f}" if digits == 0 or value == 0 or abs(value) >= 10.0**-digits else f"{value:.1e}"


def size_line(record: Record) -> str:
    """Which size was run, as a sentence."""
    return f"Size: {size_name(record)}: {record['about']}"


def is_whole(record: Record) -> bool:
    """Whether nothing of the protocol was shortened; the first records tell it by their size alone."""
    return bool(record.get("whole", record["size"] == "paper"))


def size_name(record: Record) -> str:
    """Quick, short or full; if the epochs were changed, their number."""
    if is_whole(record):
        return "full"
    return f"{record['epochs']} epochs" if record["size"] == "paper" else str(record["size"])


def text_of(record: Record) -> str:
    """The record for a terminal: ours beside printed, one block per number."""
    return "\n".join(_lines(record))


def _lines(record: Record) -> Iterator[str]:
    rows, numbers, printed = record["rows"], record["numbers"], record["printed"]
    units = [f" in {number['unit']}" if number["unit"] else "" for number in numbers]
    heads = [f"{n['title']}{unit}, {n['better']} is better" for n, unit in zip(numbers, units, strict=True)]
    width = max(len(title) for title in [*heads, *(row["title"] for row in rows)]) + 2
    yield f"{record['table']}: {record['title']}"
    yield from textwrap.wrap(size_line(record), WIDTH)
    if not is_whole(record) and printed:
        yield "The printed numbers are of the full size: at this one there is no verdict."
    for number, head in zip(numbers, heads, strict=True):
        yield ""
        yield f"{head:{width}s}{'n':>3s}  {'ours':>15s}" + (f"  {'printed':>15s}  verdict" if printed else "")
        for row in rows:
            yield f"{row['title']:{width}s}{_cells(row['means'][number['key']], printed)}"
    for titles, cells in more_tables(record):
        yield ""
        yield from aligned(titles, cells)
    yield ""
    yield from textwrap.wrap(f"Seed by seed: {record['paired_test']}.", WIDTH)
    yield from _small_print(record)


def _cells(entry: Mapping[str, Any], with_printed: bool) -> str:
    line = f"{entry['n']:3d}  {mean_text(entry):>15s}"
    if not with_printed:
        return line
    if "printed" not in entry:
        return f"{line}  {'–':>15s}"
    verdict = f"{entry['verdict']} ({entry['why']})" if "verdict" in entry else ""
    return f"{line}  {printed_text(entry):>15s}  {verdict}"


def _small_print(record: Record) -> Iterator[str]:
    yield ""
    if record["printed"]:
        yield from textwrap.wrap(f"Verdict: {record['test']}.", WIDTH)
    if record["remarks"]:
        yield "The full protocol:"
    for remark in record["remarks"]:
        yield from textwrap.wrap(remark, WIDTH, initial_indent="- ", subsequent_indent="  ")
    if record["options"]:
        options = ", ".join(f"{key}={value}" for key, value in record["options"].items())
        yield from textwrap.wrap(f"Options: {options}.", WIDTH)
