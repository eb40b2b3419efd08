"""docs/results.md: every table that was run, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairweight.paper import records
from fairweight.paper._table_text import (
    difference_text,
    markdown,
    more_tables,
    printed_text,
    size_line,
)
from fairweight.paper.front_picture import front_svg
from fairweight.paper.records import other_options, section_name
from fairweight.paper.status import RULE, Standing, place, standings
from fairweight.paper.verdict import BETWEEN, TEST
from fairweight.runs.statistics import mean_text

COMMAND = "python -m fairweight.paper.records"
Record = Mapping[str, Any]


def grouped(found: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Tables, in the paper's order, the full size and the usual options first; records of the same settings are one."""
    names: dict[str, list[str]] = {}
    for name, record in found.items():
        if record.get("kind") == "reproduce":
            names.setdefault(records.settings_of(record), []).append(name)
    merged = [{**records.merged(found[name] for name in group), "from": group} for group in names.values()]
    sizes = ("paper", "short", "quick")
    return sorted(merged, key=lambda r: (place(r["table"]), sizes.index(r["size"]), other_options(r)))


def results(tables: list[dict[str, Any]], root: Path) -> str:
    """The page, from the tables and the notes beside their records."""
    parts = [
        "# Results",
        f"Made from `records/` by `{COMMAND}` (or `make docs`); not typed. Every number is a mean over seeds ± its "
        "standard error. TPRD and maxFNR: lower is better; accuracy: higher.",
        RULE,
        _status(standings(tables)),
        f"Verdict beside a printed number, at the full size alone: {TEST}. Between rows of ours: {BETWEEN}.",
    ]
    parts += [_contents(tables)] if tables else []
    for record in tables:
        parts.append(_section(record))
        notes = (root / "records" / name / "notes.md" for name in record["from"])
        parts += [path.read_text(encoding="utf-8").strip() for path in notes if path.is_file()]
    return "\n\n".join(parts) + "\n"


def _contents(tables: list[dict[str, Any]]) -> str:
    """What is on the page: each section with its rows, seeds and machine."""
    rows = []
    for record in tables:
        counts = [len(row["seeds"]) for row in record["rows"]]
        seeds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{counts[0]}"
        rows.append([_link(section_name(record)), len(counts), seeds, "; ".join(record["devices"])])
    return markdown(["section", "rows", "seeds a row", "on"], rows)


def _status(found: list[Standing]) -> str:
    """One screen: what became of each table."""
    rows = [[one.table if one.section is None else _link(one.section, one.table), one.state, one.why] for one in found]
    return markdown(["table of the paper", "state", "why"], rows)


def _link(title: str, shown: str = "") -> str:
    """A link to the heading, as GitHub names it: lower case, punctuation left out, spaces as dashes."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{shown or title}](#{anchor})"


def _section(record: Record) -> str:
    """One table: ours beside printed, what stands beside it, differences seed by seed, and where it comes from."""
    parts = [f"## {section_name(record)}", f"{record['title']} {size_line(record)}", _main_table(record)]
    parts += [markdown(titles, rows) for titles, rows in more_tables(record)]
    if has_front(record):
        parts.append(_front(record))
    remarks = "\n".join(f"- {remark}" for remark in record["remarks"])
    return "\n\n".join(part for part in [*parts, remarks, _source(record)] if part)


def _main_table(record: Record) -> str:
    titles = ["row", "n"]
    for number in record["numbers"]:
        unit = f", {number['unit']}" if number["unit"] else ""
        titles += [f"{number['title']}{unit}"] + (["printed", "verdict"] if record["printed"] else [])
    rows = []
    for row in record["rows"]:
        entries = [row["means"][number["key"]] for number in record["numbers"]]
        cells: list[object] = [row["title"], max((entry["n"] for entry in entries), default=0)]
        for entry in entries:
            beside = [printed_text(entry), entry.get("verdict", "–")] if record["printed"] else []
            cells += [mean_text(entry), *beside]
        rows.append(cells)
    return markdown(titles, rows)


def pictures(tables: Iterable[Record]) -> dict[str, str]:
    """The fronts that the page shows, by file name."""
    return {picture_name(record): front_svg(record) for record in tables if has_front(record)}


def picture_name(record: Record) -> str:
    """Its file beside the page."""
    return f"front_{re.sub(r'[^a-z0-9]+', '_', section_name(record))}.svg"


def has_front(record: Record) -> bool:
    """Whether the table has rows beyond the paper's to draw a front with."""
    tprd = any("tprd" in row["means"] and row["means"]["tprd"]["n"] for row in record["rows"])
    return tprd and any(row["kind"] == "extra" for row in record["rows"])


def _front(record: Record) -> str:
    """TPRD against accuracy, and which rows no other beats in both."""
    shown = [
        row
        for row in record["rows"]
        if row["means"].get("tprd", {}).get("mean") is not None and row["key"] != "uniform-clean"  # other labels
    ]
    points = {row["title"]: (row["means"]["tprd"]["mean"], row["means"]["accuracy"]["mean"]) for row in shown}
    seeds = {row["title"]: sorted(row["seeds"]) for row in shown}
    beyond = {row["title"]: row.get("beyond_front") for row in shown}
    rows = []
    for title, (tprd, accuracy) in sorted(points.items(), key=lambda point: point[1]):
        beaten = any(t <= tprd and a >= accuracy and (t, a) != (tprd, accuracy) for t, a in points.values())
        free = difference_text(beyond[title]) if beyond[title] else "–"
        rows.append([title, len(seeds[title]), f"{tprd:.2f}", f"{accuracy:.2f}", "" if beaten else "yes", free])
    told = "TPRD beside a bias per class on Uniform's logits, at equal accuracy"
    front = markdown(["TPRD against accuracy", "n", "TPRD", "accuracy", "on the front", told], rows)
    front += f"\n\n![TPRD against accuracy]({picture_name(record)})"
    if len({tuple(which) for which in seeds.values()}) > 1:
        front += "\n\nNot every row has the same seeds: where two means are close, go by the differences seed by seed."
    return front


def _source(record: Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    options = ", ".join(f"{key}={value}" for key, value in record["options"].items())
    commands = record.get("commands") or [record["command"]]
    unsaid = [option for option in other_options(record) if any(option not in command for command in commands)]
    then = f" (where it does not say so, {' and '.join(unsaid)} was the default then: name it now)" if unsaid else ""
    seeds = record["seeds"]
    whole = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds)) or "none"
    return (
        f"- Command: {'; '.join(f'`{command}`' for command in commands)}{then}\n"
        f"- Options: {options or 'none'}\n"
        f"- {', '.join(record['devices'])}; commit {', '.join(record['commits'])}; {versions}; "
        f"{record['wall_seconds']:.0f} seconds on the clock for what was not found finished; seeds {which}"
    )
