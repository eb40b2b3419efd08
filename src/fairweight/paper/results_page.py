"""docs/results.md: every table that was run, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairweight.paper._table_text import difference_text, main_table, markdown, more_tables
from fairweight.paper.plan import size_line
from fairweight.paper.records import other_options, section_name
from fairweight.paper.status import RULE, standings
from fairweight.paper.verdict import BETWEEN, CLEAN, TEST

COMMAND = "python -m fairweight.paper.records"
Record = Mapping[str, Any]


def results(tables: list[dict[str, Any]], root: Path) -> str:
    """The page, from the tables and the notes beside their records."""
    status = [
        [one.table if one.section is None else _link(one.section, one.table), one.state, one.why]
        for one in standings(tables)
    ]
    parts = [
        "# Results",
        f"Generated from `records/` by `{COMMAND}` (or `make docs`); do not edit. Every number is a mean over seeds ± "
        "its standard error. TPRD and maxFNR: lower is better; accuracy: higher is better.",
        RULE,
        markdown(["table of the paper", "state", "why"], status),
        f"Verdicts against printed numbers, at the full size only: {TEST}. Between our rows: {BETWEEN}.",
    ]
    if tables:
        contents = []
        for record in tables:
            counts = sorted(len(row["seeds"]) for row in record["rows"])
            seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
            contents.append([_link(section_name(record)), len(counts), seeds, "; ".join(record["devices"])])
        parts.append(markdown(["section", "rows", "seeds per row", "device"], contents))
    for record in tables:
        parts.append(_section(record))
        notes = (root / "records" / name / "notes.md" for name in record["from"])
        parts += [path.read_text(encoding="utf-8").strip() for path in notes if path.is_file()]
    return "\n\n".join(parts) + "\n"


def _link(title: str, shown: str = "") -> str:
    """A link to the heading, as GitHub names it: lower case, punctuation left out, spaces as dashes."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{shown or title}](#{anchor})"


def _section(record: Record) -> str:
    """One table: ours beside printed, what stands beside it, differences seed by seed, and where it comes from."""
    parts = [f"## {section_name(record)}", f"{record['title']} {size_line(record)}"]
    parts += [markdown(*shown) for shown in (main_table(record, record["numbers"]), *more_tables(record))]
    parts += [_front(record)] if has_front(record) else []
    parts += ["\n".join(f"- {remark}" for remark in record["remarks"])]
    return "\n\n".join([*filter(None, parts), _source(record)])


def picture_name(record: Record) -> str:
    """Its file beside the page."""
    return f"front_{re.sub(r'[^a-z0-9]+', '_', section_name(record))}.svg"


def has_front(record: Record) -> bool:
    """Whether the table has rows beyond the paper's to draw a front with."""
    tprd = any("tprd" in row["means"] and row["means"]["tprd"]["n"] for row in record["rows"])
    return tprd and any(row["kind"] == "extra" for row in record["rows"])


def _front(record: Record) -> str:
    """TPRD against accuracy, and which rows no other beats in both."""
    shown = [row for row in record["rows"] if row["means"]["tprd"]["mean"] is not None and row["key"] != CLEAN]
    points = {row["key"]: (row["means"]["tprd"]["mean"], row["means"]["accuracy"]["mean"]) for row in shown}
    rows = []
    for row in sorted(shown, key=lambda row: points[row["key"]]):
        tprd, accuracy = point = points[row["key"]]
        beaten = any(t <= tprd and a >= accuracy and (t, a) != point for t, a in points.values())
        free = difference_text(row["beyond_front"]) if row.get("beyond_front") else "–"
        cells = [len(row["seeds"]), f"{tprd:.2f}", f"{accuracy:.2f}", "" if beaten else "yes", free]
        rows.append([row["title"], *cells])
    told = "TPRD compared with a bias per class on Uniform's logits at equal accuracy"
    front = markdown(["TPRD against accuracy", "n", "TPRD", "accuracy", "on the front", told], rows)
    front += f"\n\n![TPRD against accuracy]({picture_name(record)})"
    if len({tuple(sorted(row["seeds"])) for row in shown}) > 1:
        front += "\n\nRows differ in their seeds: where two means are close, use the differences by seed."
    return front


def _source(record: Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    options = ", ".join(f"{key}={value}" for key, value in record["options"].items())
    commands = record.get("commands") or [record["command"]]
    unsaid = [option for option in other_options(record) if any(option not in command for command in commands)]
    then = f" (at the time, {' and '.join(unsaid)} was the default: pass it explicitly now)" if unsaid else ""
    seeds = record["seeds"]
    whole = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds)) or "none"
    return (
        f"- Command: {'; '.join(f'`{command}`' for command in commands)}{then}\n"
        f"- Options: {options or 'none'}\n"
        f"- {', '.join(record['devices'])}; commit {', '.join(record['commits'])}; {versions}; "
        f"{record['wall_seconds']:.0f} seconds of wall time, without runs that were already finished; seeds {which}"
    )
