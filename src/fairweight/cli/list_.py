"""fairweight list."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from typing import Annotated, Any

import typer

from fairweight.cli import _options as opt

_FOLDERS = {"methods": "methods", "objectives": "objectives", "datasets": "data.sets", "tables": "paper.tables"}
_Kind = StrEnum("_Kind", [*_FOLDERS, "criteria"])  # type: ignore[misc]
_NEEDS = {
    "train groups": "the group of each training sample",
    "exemplar": "an exemplar batch at every step",
    "exemplar set": "the exemplar set",
    "weights": "weights, yours or those that `fairweight refit` takes from a run",
}


def list_(kind: Annotated[_Kind, typer.Argument(help="What to list.")], json: opt.Json = False) -> None:
    """List methods, objectives, data sets, tables or criteria: each with one sentence."""
    from fairweight import catalog
    from fairweight.metrics.criterion import CRITERIA

    entries: dict[str, dict[str, Any]] = {}
    if kind == "criteria":
        entries = {name: {"summary": c.sentence, "wanted_by": c.wanted_by} for name, c in CRITERIA.items()}
    else:
        folder = _FOLDERS[kind]
        for name in catalog.names(folder):
            plug_in = catalog.load(folder, name)
            paper = getattr(plug_in, "paper", "")
            entries[name] = {"summary": catalog.summary(folder, name), **({"paper": paper} if paper else {})}
            if kind == "methods":
                entries[name]["needs"] = sorted(getattr(plug_in, "needs", ()))
    width, rows = max(map(len, entries), default=0) + 2, []
    for name, entry in entries.items():
        needs = ", ".join(_NEEDS[need] for need in entry.get("needs", ()))
        lines = [entry["summary"], f"for {entry['wanted_by']}" if "wanted_by" in entry else "", entry.get("paper", "")]
        lines += [f"needs: {needs}"] if needs else []
        for place, line in enumerate(filter(None, lines)):
            head = f"{'' if place else name:{width}s}"
            rows.append(textwrap.fill(line, opt.columns(1000), initial_indent=head, subsequent_indent=" " * width))
    opt.show(entries, "\n".join(rows), json)
