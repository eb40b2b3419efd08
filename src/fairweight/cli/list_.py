"""fairweight list."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from fairweight.cli import _options as opt


class _Kind(StrEnum):
    methods = "methods"
    objectives = "objectives"
    datasets = "datasets"
    tables = "tables"
    criteria = "criteria"


_FOLDERS = {"methods": "methods", "objectives": "objectives", "datasets": "data.sets", "tables": "paper.tables"}

_NEEDS = {
    "train groups": "the group of each training sample",
    "exemplar": "an exemplar batch at every step",
    "exemplar groups": "the group of each exemplar",
    "exemplar set": "the exemplar set",
    "weights": "weights, yours or those that `fairweight refit` takes from a run",
}


def list_(kind: Annotated[_Kind, typer.Argument(help="What to list.")], json: opt.Json = False) -> None:
    """List methods, objectives, data sets, tables or criteria: each with one sentence."""
    if kind == "criteria":
        _show(_criteria(), json)
        return
    from fairweight import catalog

    folder = _FOLDERS[kind]
    entries: dict[str, dict[str, Any]] = {}
    for name in catalog.names(folder):
        plug_in = catalog.load(folder, name)
        entries[name] = {"summary": catalog.summary(folder, name)}
        if paper := getattr(plug_in, "paper", ""):
            entries[name]["paper"] = paper
        if kind == "methods":
            entries[name]["needs"] = sorted(getattr(plug_in, "needs", ()))
    _show(entries, json)


def _criteria() -> dict[str, dict[str, Any]]:
    from fairweight.metrics.criterion import CRITERIA

    return {name: {"summary": one.sentence, "wanted_by": one.wanted_by} for name, one in CRITERIA.items()}


def _show(entries: dict[str, dict[str, Any]], json: bool) -> None:
    if json:
        opt.print_json(entries)
        return
    width = max(map(len, entries), default=0) + 2
    for name, entry in entries.items():
        print(f"{name:{width}s}{entry['summary']}")
        if "wanted_by" in entry:
            print(f"{'':{width}s}for {entry['wanted_by']}")
        if "paper" in entry:
            print(f"{'':{width}s}{entry['paper']}")
        if entry.get("needs"):
            print(f"{'':{width}s}needs: {', '.join(_NEEDS[need] for need in entry['needs'])}")
