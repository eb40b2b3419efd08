"""docs/results.md: every table that was run, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairweight import catalog
from fairweight.paper import records
from fairweight.paper._table_text import (
    beside_keys,
    beside_text,
    difference_text,
    is_whole,
    markdown,
    printed_text,
    seeds_text,
    share_text,
    size_line,
)
from fairweight.paper.plan import FOLDER, planned
from fairweight.paper.records import other_options, section_name
from fairweight.paper.verdict import TEST
from fairweight.runs.statistics import BESIDE, PAIRED_TEST, mean_text

COMMAND = "python -m fairweight.paper.records"
Record = Mapping[str, Any]
# The order of the paper, then ours.
ORDER = (
    "cifar10", "cifar100", "celeba", "mnist", "condensation", "reverse", "adversarial", "meta-loss", "weight-form",
    "celeba-young", "mnist-loss-ratio", "fairface",
)  # fmt: skip


def grouped(found: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Tables, in the paper's order, the full size and the usual options first; records of the same settings are one."""
    names: dict[str, list[str]] = {}
    for name, record in found.items():
        if record.get("kind") == "reproduce":
            names.setdefault(records.settings_of(record), []).append(name)
    merged = [{**records.merged(found[name] for name in group), "from": group} for group in names.values()]
    sizes = ("paper", "short", "quick")
    return sorted(merged, key=lambda r: (_place(r["table"]), sizes.index(r["size"]), other_options(r)))


def results(found: Mapping[str, Record], root: Path) -> str:
    """The page, from the records and the notes beside them."""
    tables = grouped(found)
    parts = [
        "# Results",
        f"Made from `records/` by `{COMMAND}` (or `make docs`); not typed. Every number is a mean over seeds ± its "
        "standard error. TPRD and maxFNR: lower is better; accuracy: higher.",
        f"Verdict beside a printed number: {TEST}. Between rows of ours: {PAIRED_TEST}.",
        "At the sizes quick and short a verdict says how far those runs are from the printed numbers; only the full "
        "size is a reproduction.",
    ]
    parts += [_contents(tables)] if tables else []
    for record in tables:
        parts.append(_section(record))
        notes = (root / "records" / name / "notes.md" for name in record["from"])
        parts += [path.read_text(encoding="utf-8").strip() for path in notes if path.is_file()]
    parts += ["## What has not been run", _missing(tables)]
    return "\n\n".join(parts) + "\n"


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _contents(tables: list[dict[str, Any]]) -> str:
    """What is on the page: each section with its rows, seeds and machine."""
    rows = []
    for record in tables:
        counts = [len(row["seeds"]) for row in record["rows"]]
        seeds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{counts[0]}"
        rows.append([_link(section_name(record)), len(counts), seeds, "; ".join(record["devices"])])
    return f"{markdown(['section', 'rows', 'seeds a row', 'on'], rows)}\n| {_link('What has not been run')} | | | |"


def _link(title: str) -> str:
    """A link to the heading, as GitHub names it: lower case, punctuation left out, spaces as dashes."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{title}](#{anchor})"


def _section(record: Record) -> str:
    """One table: ours beside printed, what stands beside it, differences seed by seed, and where it comes from."""
    titles = {row["key"]: row["title"] for row in record["rows"]}
    numbers = record["numbers"]
    parts = [f"## {section_name(record)}", f"{record['title']} {size_line(record)}", _main_table(record)]
    if keys := beside_keys(record):
        rows = [[row["title"], *(beside_text(row, key) for key in keys)] for row in record["rows"]]
        parts.append(markdown(["beside it", *(BESIDE[key][0] for key in keys)], rows))
    apart = [
        [row["title"], titles[other], *(difference_text(found[number["key"]]) for number in numbers)]
        for row in record["rows"]
        for other, found in row["compared"].items()
        if any(found[number["key"]]["n"] for number in numbers)
    ]
    if apart:
        parts.append(markdown(["difference, seed by seed", "from", *(number["title"] for number in numbers)], apart))
    if record.get("gap_closed"):
        heads = ["share of the way from corrupted to clean", "TPRD", "printed", "accuracy", "printed"]
        which = [(number, whose) for number in ("tprd", "accuracy") for whose in ("ours", "printed")]
        closed = record["gap_closed"].items()
        parts.append(
            markdown(heads, ([titles[k], *(share_text(found[n][w]) for n, w in which)] for k, found in closed))
        )
    if any(row["kind"] == "extra" for row in record["rows"]):
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


def _front(record: Record) -> str:
    """TPRD against accuracy, and which rows no other beats in both."""
    shown = [
        row
        for row in record["rows"]
        if row["means"].get("tprd", {}).get("mean") is not None and row["key"] != "uniform-clean"  # other labels
    ]
    points = {row["title"]: (row["means"]["tprd"]["mean"], row["means"]["accuracy"]["mean"]) for row in shown}
    seeds = {row["title"]: sorted(row["seeds"]) for row in shown}
    rows = []
    for title, (tprd, accuracy) in sorted(points.items(), key=lambda point: point[1]):
        beaten = any(t <= tprd and a >= accuracy and (t, a) != (tprd, accuracy) for t, a in points.values())
        rows.append([title, len(seeds[title]), f"{tprd:.2f}", f"{accuracy:.2f}", "" if beaten else "yes"])
    front = markdown(["TPRD against accuracy", "n", "TPRD", "accuracy", "on the front"], rows)
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


def _missing(tables: list[dict[str, Any]]) -> str:
    """For each table at its full size: rows without a record, or with fewer seeds, and the command that runs them."""
    lines = []
    for name in sorted(catalog.names(FOLDER), key=_place):
        what = planned(name)
        done = [r for r in tables if r["table"] == name and is_whole(r) and r["options"] == what.plan.options]
        seeds = {row["key"]: len(row["seeds"]) for row in done[0]["rows"]} if done else {}
        rows = [row for row in what.asked if seeds.get(row.key, 0) < len(what.seeds)]
        if rows:
            each = ", ".join(f"{row.key} ({seeds_text(seeds.get(row.key, 0))})" for row in rows)
            trained = [row.key for row in rows if row.spec is not None]
            chosen = "" if len(rows) == len(what.asked) or not trained else f" --rows {','.join(trained)}"
            which = f"{each if seeds else 'every row'}, of {len(what.seeds)} seeds"
            lines.append([name, which, f"`{what.command}{chosen}`"])
    titles = ["table", "full size: what is missing", "command"]
    return markdown(titles, lines) if lines else "Everything has been run at its full size."
