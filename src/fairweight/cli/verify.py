"""fairweight verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli import _options as opt


def verify(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of several.")], json: opt.Json = False
) -> None:
    """Check that every file of a run is as it was written: by the sha256 in its manifest, runs inside it too."""
    from fairweight.runs.sealed import verify as verify_run

    found = verify_run(run)
    fine = all(one.fine for one in found)
    values = {"whole": fine, "folders": [one.to_dict() for one in found]}
    opt.show(values, "\n".join(one.text() for one in found), json)
    if not fine:
        raise typer.Exit(1)
