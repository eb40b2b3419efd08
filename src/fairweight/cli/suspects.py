"""fairweight suspects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt
from fairweight.errors import printable_lines


def suspects(
    run: opt.Run,
    top: Annotated[int, opt.flag("How many to print.", at_least=1)] = 20,
    out: Annotated[Path | None, opt.flag("A .csv or .parquet file; default: suspects.csv in the run's folder.")] = None,
    json: opt.Json = False,
) -> None:
    """Rank the training labels that are probably wrong; where the truth is known, say how well that finds them."""
    from fairweight.apps.suspects import suspects_of

    opt.introduce(run)
    found = suspects_of(run)
    path = found.write(out if out is not None else run / "suspects.csv")
    if json:
        opt.print_json({**found.to_dict(top), "file": str(path)})
    else:
        print(printable_lines(f"{found.text(top)}\n\nAll {len(found.ranked):,} labels, ranked: {path}"))
