"""fairweight predict."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, device_of, print_json
from fairweight.cli._words import delimiter_of


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    file: Annotated[str, typer.Argument(help="A table, a folder of images, or an image.")],
    out: Annotated[Path | None, typer.Option("--out", help="A .csv or .parquet file; default: CSV is printed.")] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Between the columns of a text file; default: as in training.")
    ] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of a text file; default: as in training.")] = None,
    file_column: Annotated[
        str | None, typer.Option("--file-column", help="In a list of image files, the column that names them.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Predict for new rows with a trained model; where they have labels, also say how well."""
    from fairweight.apps.predict import predict_rows

    found = predict_rows(
        run,
        file,
        device_of(device),
        delimiter=delimiter_of(delimiter),
        encoding=encoding,
        file_column=file_column,
    )
    if out is not None:
        found.write(out)
    for note in found.notes:
        print(note, file=sys.stderr)
    if json:
        table = None if found.table is None else found.table.to_dict()
        where = {"predicted": found.predicted} if out is None else {"out": str(out)}
        print_json({"rows": len(found.chances), **where, "metrics": table})
        return
    if out is None:
        found.to_pandas().to_csv(sys.stdout, index=False, float_format="%.6f")
    else:
        print(f"{len(found.chances):,} predictions written to {out}.")
    if found.table is not None:
        width = shutil.get_terminal_size((120, 24)).columns
        print(f"\n{found.table.text(width)}", file=sys.stderr if out is None else sys.stdout)
