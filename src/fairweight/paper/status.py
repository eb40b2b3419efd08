"""Say for each table of the paper: reproduced, not reproduced and why, or not run and why."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fairweight.paper import published
from fairweight.paper._table_text import difference_text, seeds_text
from fairweight.paper.plan import planned
from fairweight.paper.records import section_name, table_names
from fairweight.paper.verdict import LEAST, LEVEL

Record = Mapping[str, Any]
WIDTH = 110
RULE = (
    f"Reproduced means: every printed row was run at the full size with at least {LEAST} seeds, no row ended worse "
    "than printed, and where the table has both Uniform and FORML, FORML as printed lowers TPRD significantly (after "
    "Holm's correction). Ours: the paper has no such table."
)


@dataclass(frozen=True)
class Standing:
    """One table of the paper, and what became of it here."""

    table: str
    state: Literal["reproduced", "not reproduced", "not run", "ours"]
    why: str
    section: str | None  # of docs/results.md


def standings(tables: Sequence[Record]) -> list[Standing]:
    """Every table, from records that were grouped and sorted: the usual options first."""
    all_standings = [_standing(name, [r for r in tables if r["table"] == name]) for name in table_names()]
    first = {s.why: s.table for s in reversed(all_standings)}  # by reason
    return [s if first[s.why] == s.table else replace(s, why=f"Same as {first[s.why]}.") for s in all_standings]


def status_text(standings: Sequence[Standing], width: int = WIDTH) -> str:
    """For a terminal, one screen."""
    lines = [*textwrap.wrap(RULE, width), ""]
    for standing in standings:
        head = f"{standing.table:17s}{standing.state:16s}"
        lines += textwrap.wrap(standing.why, width, initial_indent=head, subsequent_indent=" " * len(head))
    return "\n".join(lines)


def _standing(name: str, records: Sequence[Record]) -> Standing:
    table = planned(name).table
    best = max((r for r in records if r["whole"]), key=lambda record: min(3, _seeds(record)), default=None)
    shown = best or next(iter(records), None)
    section = None if shown is None else section_name(shown)
    if not table.printed:
        seeds = "Not run" if best is None else f"{seeds_text(_seeds(best))} per row"
        return Standing(name, "ours", f"{table.why_not_run} {seeds}.", section)
    if best is None or _seeds(best) < LEAST:
        run = [f"{section_name(r).removeprefix(f'{name}, ')} ({seeds_text(_seeds(r))})" for r in records]
        so_far = f" Run so far: {'; '.join(run)}." if run else ""
        return Standing(name, "not run", f"{table.why_not_run}{so_far}", section)
    problems = _problems(name, best)
    reasons = [*problems, table.explained] if problems else ["All rows are as printed."]
    why = " ".join([f"{seeds_text(_seeds(best))}.", *filter(None, reasons)])
    return Standing(name, "not reproduced" if problems else "reproduced", why, section)


def _seeds(record: Record) -> int:
    """The seeds of its best-run printed row."""
    return max((len(row["seeds"]) for row in record["rows"] if row["printed_row"] or not record["printed"]), default=0)


def _problems(name: str, record: Record) -> list[str]:
    """What keeps a table that was run from being reproduced, in sentences."""
    run_rows = {row["printed_row"] for row in record["rows"] if len(row["seeds"]) >= LEAST}
    missing = [title for title in published.tables()[name] if title not in run_rows]
    problems = [f"Not run: {', '.join(missing)}."] if missing else []
    for row in record["rows"]:
        difference = row["compared"].get("uniform", {}).get("tprd") if row["key"] == "forml" else None
        if difference and ((p := difference.get("p_holm")) is None or p >= 1 - LEVEL or difference["mean"] >= 0):
            spread = row["beside"].get("score_std")
            movement = "" if spread is None else f" The standard deviation of its scores is {spread['mean']:.1g}."
            problems.append(
                f"FORML as printed differs from Uniform by {difference_text(difference)} in TPRD.{movement}"
            )
    for row in record["rows"]:
        for number in record["numbers"]:
            entry = row["means"][number["key"]]
            if entry.get("verdict") == "worse":
                values = f"{entry['mean']:.2f}, printed {entry['printed']['mean']:.2f}"
                problems.append(f"{row['title']}: {number['title']} {values}.")
    return problems
