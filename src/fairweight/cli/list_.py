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


_FOLDERS = {"methods": "reweight", "objectives": "objectives", "datasets": "data.sets", "tables": "experiments.tables"}


def list_(kind: Annotated[_Kind, typer.Argument(help="What to list.")], json: Json = False) -> None:
    """List the methods, objectives, named data sets or published tables, each with one sentence."""
    from fairweight import catalog

    folder = _FOLDERS[kind]
    entries = {name: catalog.summary(folder, name) for name in catalog.names(folder)}
    papers = {name: getattr(catalog.load(folder, name), "paper", "") for name in entries}
    if json:
        print_json({n: {"summary": s, **({"paper": papers[n]} if papers[n] else {})} for n, s in entries.items()})
        return
    width = max(map(len, entries), default=0) + 2
    for name, sentence in entries.items():
        print(f"{name:{width}s}{sentence}")
        if papers[name]:
            print(f"{'':{width}s}{papers[name]}")
