"""Pages made from records: docs/results.md and docs/results/, and marked places in README.md and docs/*.md.

python docs/generate/record_pages.py

A place between <!-- records:NAME --> and <!-- /records:NAME --> is replaced.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import record_blocks
from front_picture import front_svg
from methods_page import methods_text
from results_page import COMMAND, FOLDER, has_front, results, slug, table_page

from fairweight.paper import records
from fairweight.paper._table_text import markdown
from fairweight.runs.statistics import mean_text

RESULTS = Path("docs") / "results.md"
Record = Mapping[str, Any]


def pages(root: Path) -> dict[Path, str]:
    """What every generated page should hold, by path."""
    found = records.read_all(root / "records")
    tables = records.grouped(found)  # once: its intervals are bootstrapped
    made, folder = {root / RESULTS: results(tables)}, root / "docs" / FOLDER
    made |= {folder / f"{slug(record)}.md": table_page(record, root) for record in tables}
    made |= {folder / f"{slug(record)}.svg": front_svg(record) for record in tables if has_front(record)}
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        if path != root / RESULTS and path.is_file():
            before = path.read_text(encoding="utf-8")
            if "<!-- records:" in before:
                made[path] = filled(before, lambda name: block(name, found, tables))
    return made


def filled(text: str, make: Callable[[str], str | None]) -> str:
    """The text with each marked place replaced; a marker without an end gets one, an unknown one is left alone."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        content = make(name)
        return match.group(0) if content is None else f"<!-- records:{name} -->\n{content}\n<!-- /records:{name} -->"

    opened = r"<!-- records:([\w-]+) -->"
    return re.sub(rf"{opened}(?:(?:(?!<!-- records:).)*?<!-- /records:\1 -->)?", replace, text, flags=re.DOTALL)


def block(name: str, found: Mapping[str, Record], tables: list[dict[str, Any]]) -> str | None:
    """What a page may ask for by name; None where there is no such thing."""
    none = "No record yet; `fairweight {}` makes one."
    if name == "demo":
        demos = [record for record in found.values() if record.get("kind") == "demo"]
        return _demo(demos[-1]) if demos else none.format("demo --records records")
    every = [*tables, *(record for record in found.values() if record.get("kind") == "compare")]
    if name == "methods":
        return methods_text(every) or none.format("compare digits --records records")
    return record_blocks.block(name, found)


def _demo(record: Record) -> str:
    def percent(entry: Mapping[str, Any]) -> str:
        keys = ("mean", "standard_error")
        return mean_text({key: None if entry.get(key) is None else 100 * entry[key] for key in keys})

    titles = {"tprd": "TPRD, % ↓", "max_fnr": "maxFNR, % ↓", "accuracy": "accuracy, % ↑"}
    n = max(entry["n"] for row in record["rows"].values() for entry in row.values())
    rows = ([name, *(percent(row[key]) for key in titles)] for name, row in record["rows"].items())
    auc = record.get("auc_wrong_labels")
    tail = "" if auc is None else f"\n\nA low score finds a wrong label: AUC {mean_text(auc, 3)}."
    return markdown([f"mean ± standard error, {n} seeds", *titles.values()], rows) + tail


def main(arguments: list[str] | None = None) -> None:
    """Write the pages that are out of date."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Make the pages that show records.")
    parser.add_argument("--root", type=Path, default=Path(), help="The repository.")
    made, wrote = pages(parser.parse_args(arguments).root), []
    for path, text in made.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            wrote.append(f"wrote {path}")
    print("\n".join(wrote) or "nothing changed")


if __name__ == "__main__":
    main()
