"""docs/results.md: what became of every table, on one screen; docs/results/: a page per table that was run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairweight.paper._table_text import MARKS, difference_text, markdown, means_table, more_tables, printed_table
from fairweight.paper.plan import size_line
from fairweight.paper.records import other_options, section_name
from fairweight.paper.status import RULE, standings
from fairweight.paper.verdict import BETWEEN, CLEAN, TEST

COMMAND = "python docs/generate/record_pages.py"
FOLDER = "results"  # beside the first page
PICTURE = (
    "Points are means, bars standard errors. Black: rows of the paper; red: FORML as printed, reversed and by default; "
    "blue: others. The line is a bias per class on Uniform's logits, from none to its full strength."
)
Record = Mapping[str, Any]


def results(tables: Sequence[Record]) -> str:
    """The first page: the same words as `fairweight reproduce --status`, then a link to every table that was run."""
    names = {section_name(record): f"{FOLDER}/{slug(record)}.md" for record in tables}
    status = [
        [one.table if one.section is None else f"[{one.table}]({names[one.section]})", one.state, one.why]
        for one in standings(tables)
    ]
    parts = [
        "# Results",
        RULE,
        markdown(["table of the paper", "state", "why"], status),
        "`fairweight reproduce --status` prints the same; `fairweight reproduce TABLE` runs one.",
    ]
    if tables:
        contents = []
        for record in tables:
            counts = sorted(len(row["seeds"]) for row in record["rows"])
            seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
            name = section_name(record)
            contents.append([f"[{name}]({names[name]})", len(counts), seeds, "; ".join(record["devices"])])
        parts += ["## Every table that was run", markdown(["page", "rows", "seeds per row", "device"], contents)]
    parts += [
        "## How to read them",
        "Every number is a mean over seeds ± its standard error. TPRD and maxFNR: lower is better; accuracy: higher is "
        "better. std is the standard deviation of the classes' recalls.",
        f"Verdicts against printed numbers, at the full size only: {TEST}.",
        f"Between our rows: {BETWEEN}.",
        f"Generated from `records/` by `{COMMAND}` (or `make docs`); do not edit.",
    ]
    return "\n\n".join(parts) + "\n"


def table_page(record: Record, root: Path) -> str:
    """One table: means, what they show, ours beside printed, differences seed by seed, and where it comes from."""
    notes = (root / "records" / name / "notes.md" for name in record["from"])
    told = [path.read_text(encoding="utf-8").strip() for path in notes if path.is_file()]
    printed = printed_table(record)
    parts = [f"# {section_name(record)}", f"{record['title']} {size_line(record)}", markdown(*means_table(record))]
    if record["printed"] and not record["whole"]:
        parts.append("The paper's numbers are for the full size, so they are not shown here.")
    parts += ["## What it shows", *told] if told else []
    parts += ["## Beside the printed numbers", markdown(*printed)] if printed[1] else []
    text = "\n\n".join([*parts, *_differences(record), *_front(record), *_source(record)]) + "\n"
    return re.sub(r"(?<=\d) (?=±|\\\*)|(?<=±) ", "\u00a0", text)  # a number stays on one line


def _differences(record: Record) -> list[str]:
    """Differences with marks; p-values and other numbers folded away."""
    parts = []
    for titles, rows in more_tables(record):
        shown = markdown(titles, rows)
        if titles[0] == "difference by seed":
            parts += ["## Differences by seed", *(part.replace("*", r"\*") for part in (shown, f"{MARKS}."))]
        elif titles[0] in ("p-values", "other numbers"):
            parts.append(f'<details markdown="1"><summary>{titles[0].capitalize()}</summary>\n\n{shown}\n\n</details>')
        else:
            parts.append(shown)
    return parts


def slug(record: Record) -> str:
    """The name of its page and picture."""
    return re.sub(r"[^a-z0-9]+", "-", section_name(record))


def has_front(record: Record) -> bool:
    """Whether the table has rows beyond the paper's to draw a front with."""
    tprd = any("tprd" in row["means"] and row["means"]["tprd"]["n"] for row in record["rows"])
    return tprd and any(row["kind"] == "extra" for row in record["rows"])


def _front(record: Record) -> list[str]:
    """TPRD against accuracy, and which rows no other beats in both."""
    if not has_front(record):
        return []
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
    parts = ["## TPRD against accuracy", f"![TPRD against accuracy]({slug(record)}.svg)", PICTURE]
    parts.append(markdown(["row", "n", "TPRD", "accuracy", "on the front", told], rows))
    if len({tuple(sorted(row["seeds"])) for row in shown}) > 1:
        parts.append("Rows differ in their seeds: where two means are close, use the differences by seed.")
    return parts


def _source(record: Record) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    options = ", ".join(f"{key}={value}" for key, value in record["options"].items())
    commands = record.get("commands") or [record["command"]]
    unsaid = [option for option in other_options(record) if any(option not in command for command in commands)]
    then = f" (at the time, {' and '.join(unsaid)} was the default: pass it explicitly now)" if unsaid else ""
    seeds = record["seeds"]
    whole = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds)) or "none"
    lines = [
        *record["remarks"],
        f"Command: {'; '.join(f'`{command}`' for command in commands)}{then}",
        f"Options: {options or 'none'}",
        f"Records: {', '.join(record['from'])}",
        f"{', '.join(record['devices'])}; commit {', '.join(record['commits'])}; {versions}; "
        f"{record['wall_seconds']:.0f} seconds of wall time, without runs that were already finished; seeds {which}",
    ]
    return ["## How it was run", "\n".join(f"- {line}" for line in lines)]
