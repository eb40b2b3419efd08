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

    folders = verify_run(run)
    whole = all(folder.fine for folder in folders)
    values = {"whole": whole, "folders": [folder.to_dict() for folder in folders]}
    opt.show(values, "\n".join(folder.text() for folder in folders), json)
    if not whole:
        raise typer.Exit(1)
