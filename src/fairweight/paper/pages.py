"""Pages made from records: docs/results.md, and marked places in README.md and docs/*.md."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairweight import catalog
from fairweight.errors import FairweightError
from fairweight.paper import records
from fairweight.paper._gains import method_lines, methods_text
from fairweight.paper._label_bias_log import label_bias_text
from fairweight.paper._markdown import (
    compared_lines,
    demo_table,
    history_cost_table,
    other_options,
    record_section,
    section_name,
    seeds_text,
)
from fairweight.paper._table_text import is_whole, size_name
from fairweight.paper.plan import FOLDER, planned
from fairweight.paper.verdict import PAIRED_TEST, TEST

RESULTS = Path("docs") / "results.md"
COMMAND = "python -m fairweight.paper.records"
Record = Mapping[str, Any]
_SHOWN = (
    "uniform",
    "uniform-same",
    "uniform-clean",
    "lb",
    "-default",
    "-refit",
)  # how the keys of the README's rows end
# The order of the paper, then ours.
ORDER = (
    "cifar10", "cifar100", "celeba", "mnist", "condensation", "reverse", "adversarial", "meta-loss", "weight-form",
    "celeba-young", "mnist-loss-ratio", "fairface",
)  # fmt: skip


def pages(root: Path) -> dict[Path, str]:
    """What every generated page should hold, by path."""
    found = records.read_all(root / "records")
    made = {root / RESULTS: results(found, root)}
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        if path != root / RESULTS and path.is_file():
            before = path.read_text(encoding="utf-8")
            if "<!-- records:" in before:
                made[path] = filled(before, lambda name: block(name, found))
    return made


def filled(text: str, make: Callable[[str], str | None]) -> str:
    """The text with each marked place replaced; a marker without an end gets one, a strange one is left alone."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        content = make(name)
        if content is None:
            return match.group(0)
        return f"<!-- records:{name} -->\n{content}\n<!-- /records:{name} -->"

    opened = r"<!-- records:([\w-]+) -->"
    return re.sub(rf"{opened}(?:(?:(?!<!-- records:).)*?<!-- /records:\1 -->)?", replace, text, flags=re.DOTALL)


def block(name: str, found: Mapping[str, Record]) -> str | None:
    """What a page may ask for by name; None where there is no such thing."""
    tables = grouped(found)
    every = [*tables, *(record for record in found.values() if record.get("kind") == "compare")]
    if name == "demo":
        demos = [record for record in found.values() if record.get("kind") == "demo"]
        return demo_table(demos[-1]) if demos else _none("fairweight demo --records records")
    if name == "results":
        return _headline(tables)
    if name == "methods":
        return methods_text(every) or _none("fairweight compare digits --records records")
    if name == "history-cost":
        costs = [record for record in found.values() if record.get("kind") == "dynamics_cost"]
        return history_cost_table(costs[-1]) if costs else _none("python benchmarks/dynamics_cost.py")
    if name == "label-bias-notebook":
        logs = [record for record in found.values() if record.get("kind") == "label bias"]
        return label_bias_text(logs[-1]) if logs else _none("python benchmarks/label_bias_mnist.py")
    if name.startswith("method-"):
        return method_lines(every, name.removeprefix("method-")) or "No record has it yet."
    return None


def _none(command: str) -> str:
    return f"No record yet; `{command}` makes one."


def grouped(found: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Tables, in the paper's order, the full size and the usual options first; records of the same settings are one."""
    kinds: dict[str, list[Record]] = {}
    for name, record in found.items():
        if record.get("kind") == "reproduce":
            key = str([record.get(k) for k in ("table", "size", "epochs", "options")])
            kinds.setdefault(key, []).append({**record, "from": [name]})
    merged = []
    for group in kinds.values():
        whole = records.merged(group)
        merged.append({**whole, "from": [name for record in group for name in record["from"]]})
    sizes = {"paper": 0, "short": 1, "quick": 2}
    return sorted(merged, key=lambda r: (_place(r["table"]), sizes[r["size"]], other_options(r)))


def _place(table: str) -> int:
    return ORDER.index(table) if table in ORDER else len(ORDER)


def _headline(tables: list[dict[str, Any]]) -> str:
    """Uniform with its controls, LB, FORML's default and its second training; other options at the full size alone."""
    lines = ["| table | size | row | n | TPRD, % | accuracy, % |", "|---|---|---|---|---|---|"]
    for record in tables:
        size = ", ".join([size_name(record), *other_options(record)])
        for row in record["rows"] if is_whole(record) or not other_options(record) else []:
            shown = row["key"].endswith(_SHOWN) and row.get("moved") is None
            if shown and "tprd" in row["means"] and row["means"]["tprd"]["n"]:
                cells = [compared_lines(row["means"][key]) for key in ("tprd", "accuracy")]
                n = row["means"]["tprd"]["n"]
                lines.append(f"| {record['table']} | {size} | {row['title']} | {n} | {' | '.join(cells)} |")
    if len(lines) == 2:
        return _none("fairweight reproduce mnist")
    return "\n".join(lines) + "\n\nMean ± standard error over n seeds; in brackets, as printed at the full size."


def results(found: Mapping[str, Record], root: Path) -> str:
    """docs/results.md."""
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
        parts.append(record_section(record))
        for name in record["from"]:
            notes = root / "records" / name / "notes.md"
            if notes.is_file():
                parts.append(notes.read_text(encoding="utf-8").strip())
    parts += ["## What has not been run", _missing(tables)]
    return "\n\n".join(parts) + "\n"


def _contents(tables: list[dict[str, Any]]) -> str:
    """What is on the page: each section with its rows, seeds and machine."""
    lines = ["| section | rows | seeds a row | on |", "|---|---|---|---|"]
    for record in tables:
        name = ", ".join(section_name(record))
        counts = [len(row["seeds"]) for row in record["rows"]]
        seeds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{counts[0]}"
        lines.append(f"| [{name}](#{_anchor(name)}) | {len(counts)} | {seeds} | {'; '.join(record['devices'])} |")
    last = "What has not been run"
    return "\n".join([*lines, f"| [{last}](#{_anchor(last)}) | | | |"])


def _anchor(title: str) -> str:
    """Where a heading's link leads, as GitHub makes it: lower case, punctuation left out, spaces as dashes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _missing(tables: list[dict[str, Any]]) -> str:
    """For each table at its full size: rows without a record, or with fewer seeds, and the command that runs them."""
    lines = ["| table | full size: what is missing | command |", "|---|---|---|"]
    for name in sorted(catalog.names(FOLDER), key=_place):
        what = planned(name)
        done = next((r for r in tables if r["table"] == name and is_whole(r) and _usual(r)), None)
        seeds = {} if done is None else {row["key"]: len(row["seeds"]) for row in done["rows"]}
        rows = [row.key for row in what.asked if seeds.get(row.key, 0) < len(what.seeds)]
        if rows:
            which = ", ".join(f"{key} ({seeds_text(seeds.get(key, 0))})" for key in rows) if seeds else "every row"
            trained = [row.key for row in what.asked if row.key in rows and row.spec is not None]
            chosen = "" if len(rows) == len(what.asked) or not trained else f" --rows {','.join(trained)}"
            lines.append(f"| {name} | {which}, of {len(what.seeds)} seeds | `{what.command}{chosen}` |")
    return "\n".join(lines) if len(lines) > 2 else "Everything has been run at its full size."


def _usual(record: Mapping[str, Any]) -> bool:
    """Whether the options are those that are taken unless told."""
    return bool(dict(planned(record["table"]).plan.options) == record["options"])


def main(arguments: list[str] | None = None) -> None:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Make the pages that show records.")
    parser.add_argument("--root", type=Path, default=Path(), help="The repository.")
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], help="record.json files to take into records/ first."
    )
    parser.add_argument("--check", action="store_true", help="Only say whether the pages are up to date.")
    asked = parser.parse_args(arguments)
    stale = []
    for path in asked.add:
        try:
            stale.append(str(records.keep(records.read(path), asked.root / "records")))
        except FairweightError as error:
            parser.error(str(error))
    for path, text in pages(asked.root).items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
            if not asked.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if asked.check and stale:
        raise SystemExit(f"out of date: {', '.join(stale)}; run {COMMAND}")
    print("\n".join(f"wrote {path}" for path in stale) or "nothing changed")
