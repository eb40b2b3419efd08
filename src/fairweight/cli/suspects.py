"""fairweight suspects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Json, print_json


def suspects(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many to print.")] = 20,
    out: Annotated[
        Path | None, typer.Option("--out", help="A .csv or .parquet file; default: suspects.csv in the run's folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Rank the training labels that are probably wrong; where the truth is known, say how well that finds them."""
    from fairweight.apps.suspects import suspects_of

    found = suspects_of(run)
    path = found.write(out if out is not None else run / "suspects.csv")
    if json:
        print_json({**found.to_dict(top), "file": str(path)})
        return
    print(found.text(top))
    print(f"\nAll {len(found.ranked):,} labels, ranked: {path}")
