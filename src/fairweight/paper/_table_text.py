"""A record of a table, for a terminal: ours beside printed, one block per number."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from fairweight.paper.run_numbers import BESIDE
from fairweight.runs.seed_mean import Mean

WIDTH = 110


def text_of(record: Mapping[str, Any]) -> str:
    """The whole of it."""
    return "\n".join(_lines(record))


def mean_text(entry: Mapping[str, Any], digits: int = 2) -> str:
    """A mean with its error, as a record holds it."""
    if entry.get("mean") is None:
        return "–"
    error = entry.get("standard_error")
    return Mean(entry["mean"], float("nan") if error is None else error, entry.get("n") or 1).text(digits)


def in_digits(value: float, digits: int) -> str:
    """With so many digits after the point; small numbers that these would hide, in two figures."""
    return f"{value:.{digits}f}" if digits == 0 or value == 0 or abs(value) >= 10.0**-digits else f"{value:.1e}"


def share_text(share: float | None) -> str:
    """A share in whole percent; what rounds to nothing has no sign."""
    return "–" if share is None else f"{round(share)} %"


def size_line(record: Mapping[str, Any]) -> str:
    """Which size was run, in words."""
    return f"Size: {size_name(record)}: {record['about']}"


def is_whole(record: Mapping[str, Any]) -> bool:
    """Whether nothing of the protocol was shortened; the first records tell it by their size alone."""
    return bool(record.get("whole", record["size"] == "paper"))


def size_name(record: Mapping[str, Any]) -> str:
    """Quick, short or full; where the epochs were changed, their number."""
    if is_whole(record):
        return "full"
    return f"{record['epochs']} epochs" if record["size"] == "paper" else str(record["size"])


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    rows = record["rows"]
    width = max([len(row["title"]) for row in rows] + [len(_head(number)) for number in record["numbers"]]) + 2
    yield f"{record['table']}: {record['title']}"
    yield from textwrap.wrap(size_line(record), WIDTH)
    if not is_whole(record) and record["printed"]:
        yield "At this size a verdict says how far these runs are from the printed numbers; it is no reproduction."
    for number in record["numbers"]:
        yield ""
        heads = f"{'n':>3s}  {'ours':>15s}"
        heads += f"  {'printed':>15s}  verdict" if record["printed"] else ""
        yield f"{_head(number):{width}s}{heads}"
        yield from (f"{row['title']:{width}s}{_number(row['means'][number['key']], record['printed'])}" for row in rows)
    yield ""
    yield from _beside(rows, width)
    yield from _compared(record, width)
    yield from _closed(record)
    yield from _small_print(record)


def _head(number: Mapping[str, Any]) -> str:
    unit = f" in {number['unit']}" if number["unit"] else ""
    return f"{number['title']}{unit}, {number['better']} is better"


def _number(entry: Mapping[str, Any], with_printed: bool) -> str:
    line = f"{entry['n']:3d}  {mean_text(entry):>15s}"
    if not with_printed:
        return line
    printed = entry.get("printed")
    if printed is None:
        return f"{line}  {'–':>15s}"
    verdict = entry.get("verdict")
    why = "" if verdict is None else f"{verdict} ({entry['why']})"
    return f"{line}  {mean_text({**printed, 'n': printed['runs']}):>15s}  {why}"


def _beside(rows: list[dict[str, Any]], width: int) -> Iterator[str]:
    keys = [key for key in BESIDE if any(key in row["beside"] for row in rows)]
    if not keys:
        return
    yield f"{'Beside it (means over seeds)':{width}s}" + "".join(f"  {BESIDE[key][0]}" for key in keys)
    for row in rows:
        cells = []
        for key in keys:
            title, digits = BESIDE[key]
            entry = row["beside"].get(key)
            text = "–" if entry is None else in_digits(entry["mean"], digits)
            cells.append(f"  {text:>{len(title)}s}")
        yield f"{row['title']:{width}s}{''.join(cells)}"


def _compared(record: Mapping[str, Any], width: int) -> Iterator[str]:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    lines = []
    for row in record["rows"]:
        for other, found in row["compared"].items():
            cells = [
                f"{n['title']} {found[n['key']]['mean']:+.2f}{_error(found[n['key']])}{_p(found[n['key']])}"
                for n in record["numbers"]
                if found[n["key"]]["mean"] is not None
            ]
            if cells:
                lines.append(f"{row['title']:{width}s}against {titles[other]}: {', '.join(cells)}")
    if lines:
        yield ""
        yield f"Seed by seed ({record['paired_test']}):"
        yield from lines


def _error(entry: Mapping[str, Any]) -> str:
    return "" if entry["standard_error"] is None else f" ± {entry['standard_error']:.2f}"


def _p(entry: Mapping[str, Any]) -> str:
    return "" if entry["p"] is None else f" (p {entry['p']:.2g})"


def _closed(record: Mapping[str, Any]) -> Iterator[str]:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    if not record.get("gap_closed"):
        return
    yield ""
    yield "Share of the way from corrupted to clean training (printed in brackets):"
    for key, found in record["gap_closed"].items():
        cells = []
        for number, title in (("tprd", "TPRD"), ("accuracy", "accuracy")):
            ours, printed = found[number]["ours"], found[number]["printed"]
            beside = "" if printed is None else f" ({share_text(printed)})"
            cells.append(f"{title} {share_text(ours)}{beside}")
        yield f"  {titles[key]}: {', '.join(cells)}"


def _small_print(record: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    if record["printed"]:
        yield from textwrap.wrap(f"Verdict: {record['test']}.", WIDTH)
    if record["remarks"]:
        yield "The full protocol:"
    for remark in record["remarks"]:
        yield from textwrap.wrap(remark, WIDTH, initial_indent="- ", subsequent_indent="  ")
    if record["options"]:
        yield from textwrap.wrap(
            "Options: " + ", ".join(f"{key}={value}" for key, value in record["options"].items()) + ".", WIDTH
        )
