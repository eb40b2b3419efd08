"""Options of the verbs that run many trainings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fairweight.errors import UnknownName

if TYPE_CHECKING:
    from fairweight.runs.pool import EngineName

Engine = Annotated[str, typer.Option("--engine", help="processes, or ray for a cluster.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Runs at a time; by default one per core, or one per GPU.")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of named sets; or set FAIRWEIGHT_DATA.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch a named set that is not there.")]


def engine_of(name: str) -> EngineName:
    """The engine of that name."""
    if name not in ("processes", "ray"):
        raise UnknownName(f"--engine {name}: choose processes or ray.")
    return cast("EngineName", name)


def quiet() -> None:
    """Keep single runs' messages off the screen: each run's log and record have them."""
    logging.getLogger("fairweight").addHandler(logging.NullHandler())  # with any handler, none speaks up by itself
