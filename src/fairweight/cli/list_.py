"""fairweight list."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fairweight.cli._options import Json, print_json


class _Kind(StrEnum):
    methods = "methods"
    objectives = "objectives"
    datasets = "datasets"
    tables = "tables"


_FOLDERS = {"methods": "methods", "objectives": "objectives", "datasets": "data.sets", "tables": "paper.tables"}

_NEEDS = {
    "train groups": "the group of each training sample",
    "exemplar": "an exemplar batch at every step",
    "exemplar groups": "the group of each exemplar",
    "exemplar set": "the exemplar set",
    "weights": "weights, yours or those that `fairweight refit` takes from a run",
}


def list_(kind: Annotated[_Kind, typer.Argument(help="What to list.")], json: Json = False) -> None:
    """List methods, objectives, data sets or published tables: each with one sentence."""
    from fairweight import catalog

    folder = _FOLDERS[kind]
    entries = {name: catalog.summary(folder, name) for name in catalog.names(folder)}
    papers = {name: paper for name in entries if (paper := getattr(catalog.load(folder, name), "paper", ""))}
    needs = {name: sorted(getattr(catalog.load(folder, name), "needs", ())) for name in entries if kind == "methods"}
    if json:
        more = {
            name: {key: found[name] for key, found in (("paper", papers), ("needs", needs)) if name in found}
            for name in entries
        }
        print_json({name: {"summary": sentence, **more[name]} for name, sentence in entries.items()})
        return
    width = max(map(len, entries), default=0) + 2
    for name, sentence in entries.items():
        print(f"{name:{width}s}{sentence}")
        if name in papers:
            print(f"{'':{width}s}{papers[name]}")
        if needs.get(name):
            print(f"{'':{width}s}needs: {', '.join(_NEEDS[need] for need in needs[name])}")
