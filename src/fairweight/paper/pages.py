"""Pages made from records: docs/results.md, and marked places in README.md and docs/*.md."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairweight.errors import FairweightError
from fairweight.paper import records
from fairweight.paper._gains import method_lines, methods_text
from fairweight.paper._markdown import seeds_text, table
from fairweight.paper._table_text import is_whole, printed_text, size_name
from fairweight.paper.records import other_options
from fairweight.paper.results_page import COMMAND, grouped, results
from fairweight.runs.statistics import mean_text

RESULTS = Path("docs") / "results.md"
Record = Mapping[str, Any]
# How the keys of the README's rows end.
_SHOWN = ("uniform", "uniform-same", "uniform-clean", "lb", "-default", "-refit")


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
    """The text with each marked place replaced; a marker without an end gets one, an unknown one is left alone."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        content = make(name)
        return match.group(0) if content is None else f"<!-- records:{name} -->\n{content}\n<!-- /records:{name} -->"

    opened = r"<!-- records:([\w-]+) -->"
    return re.sub(rf"{opened}(?:(?:(?!<!-- records:).)*?<!-- /records:\1 -->)?", replace, text, flags=re.DOTALL)


def block(name: str, found: Mapping[str, Record]) -> str | None:
    """What a page may ask for by name; None where there is no such thing."""
    if name in _OF_LAST:
        kind, make, command = _OF_LAST[name]
        last = [record for record in found.values() if record.get("kind") == kind][-1:]
        return make(last[0]) if last else _none(command)
    tables = grouped(found)
    every = [*tables, *(record for record in found.values() if record.get("kind") == "compare")]
    if name == "results":
        return _headline(tables)
    if name == "methods":
        return methods_text(every) or _none("fairweight compare digits --records records")
    if name.startswith("method-"):
        return method_lines(every, name.removeprefix("method-")) or "No record has it yet."
    return None


def _none(command: str) -> str:
    return f"No record yet; `{command}` makes one."


def _headline(tables: list[dict[str, Any]]) -> str:
    """Uniform with its controls, LB, FORML's default and its second training; other options at the full size alone."""
    rows = []
    for record in tables:
        if other_options(record) and not is_whole(record):
            continue
        size = ", ".join([size_name(record), *other_options(record)])
        for row in record["rows"]:
            shown = row["key"].endswith(_SHOWN) and row.get("moved") is None
            if shown and "tprd" in row["means"] and row["means"]["tprd"]["n"]:
                entries = [row["means"][key] for key in ("tprd", "accuracy")]
                cells = [mean_text(e) + (f" ({printed_text(e)})" if "printed" in e else "") for e in entries]
                rows.append([record["table"], size, row["title"], entries[0]["n"], *cells])
    if not rows:
        return _none("fairweight reproduce mnist")
    headline = table(["table", "size", "row", "n", "TPRD, %", "accuracy, %"], rows)
    return f"{headline}\n\nMean ± standard error over n seeds; in brackets, as printed at the full size."


def _demo(record: Record) -> str:
    def percent(entry: Mapping[str, Any]) -> str:
        keys = ("mean", "standard_error")
        return mean_text({key: None if entry.get(key) is None else 100 * entry[key] for key in keys})

    titles = {"tprd": "TPRD, % ↓", "max_fnr": "maxFNR, % ↓", "accuracy": "accuracy, % ↑"}
    n = max(entry["n"] for row in record["rows"].values() for entry in row.values())
    rows = ([name, *(percent(row[key]) for key in titles)] for name, row in record["rows"].items())
    auc = record.get("auc_wrong_labels")
    tail = "" if auc is None else f"\n\nA low score finds a wrong label: AUC {mean_text(auc, 3)}."
    return table([f"mean ± standard error, {n} seeds", *titles.values()], rows) + tail


def _history_cost(record: Record) -> str:
    """What keeping histories costs, network by network."""
    titles = ["network", "a plain step, ms", "in the history, ms", "share of an epoch", "by difference", "n"]
    rows = []
    for name, row in record["rows"].items():
        shares = []
        for key in ("share_of_epoch", "share_by_difference"):
            low, high = row[f"{key}_quartiles"]
            shares.append(f"{100 * row[key]:.2f} % ({100 * low:.2f} to {100 * high:.2f})")
        rows.append([name, f"{row['epoch_ms_per_step']:.3g}", f"{row['history_ms']:.4f}", *shares, row["n"]])
    told = f"Medians (quartiles), processor time; {record['device']}; `{record['command']}`; commit {record['commit']}."
    return f"{table(titles, rows)}\n\n{told}"


def _label_bias(record: Record) -> str:
    """LB's MNIST record beside its authors' log: a table for each rate, training by training, and the test."""

    def spread(entry: Mapping[str, Any], digits: int = 2) -> str:
        sd = "" if entry["sd"] is None else f" ({entry['sd']:.{digits}f})"
        return f"{entry['mean']:.{digits}f}{sd}"

    parts = [f"{record['what']}; {record['device']}, commit {', '.join(record['commits'])}. Test: {record['test']}."]
    for run in record["runs"]:
        beside = any("published" in at for at in run["trainings"])
        titles = ["training", "λ", "test accuracy, % (sd)", "TPRD, % (sd)"]
        rows = []
        for at in run["trainings"]:
            theirs, cells = at.get("published"), ["–"] * 3 if beside else []
            if theirs is not None:
                p = "–" if theirs["p"] is None else f"{theirs['p']:.2f}"
                cells = [f"{theirs['multiplier']:.3f}", f"{theirs['test_accuracy']:.2f}", p]
            ours = [spread(at["multiplier"], 3), spread(at["test_accuracy"]), spread(at["test_tprd"])]
            rows.append([at["training"], *ours, *cells])
        parts.append(f"Rate {run['settings']['rate']:g}, {seeds_text(run['n'])}. {run['remark']}")
        parts.append(table([*titles, *(["notebook's λ", "notebook's accuracy", "p"] if beside else [])], rows))
    return "\n\n".join(parts)


# Blocks of the newest record of a kind: the kind, its text, and the command that makes one.
_OF_LAST: dict[str, tuple[str, Callable[[Record], str], str]] = {
    "demo": ("demo", _demo, "fairweight demo --records records"),
    "history-cost": ("dynamics_cost", _history_cost, "python benchmarks/dynamics_cost.py"),
    "label-bias-notebook": ("label bias", _label_bias, "python benchmarks/label_bias_mnist.py"),
}


def main(arguments: list[str] | None = None) -> None:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Make the pages that show records.")
    parser.add_argument("--root", type=Path, default=Path(), help="The repository.")
    parser.add_argument("--add", type=Path, nargs="+", default=[], help="record.json files to take into records/.")
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
