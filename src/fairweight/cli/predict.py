"""fairweight predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fairweight.cli import _options as opt
from fairweight.cli._parse import delimiter as delimiter_of
from fairweight.cli._parse import listed


def predict(
    run: opt.Run,
    file: Annotated[str, typer.Argument(help="A table, a folder of images, or an image.")],
    out: Annotated[Path | None, opt.flag("A .csv or .parquet file; default: print CSV.")] = None,
    delimiter: Annotated[str | None, opt.flag("Column separator of a text file; default: as in training.")] = None,
    encoding: Annotated[str | None, opt.flag("Encoding of a text file; default: as in training.")] = None,
    file_column: Annotated[str | None, opt.flag("Column of file names, in a list of image files.")] = None,
    keep_columns: Annotated[str | None, opt.flag("Columns of the file to carry along, such as an id: A,B.")] = None,
    max_file_gb: Annotated[float | None, opt.flag("Largest file to read, unpacked, in GB; default 2.")] = None,
    max_megapixels: Annotated[float | None, opt.flag("Largest image to decode; default 50.")] = None,
    network: opt.Network = None,
    trust_code: opt.TrustCode = False,
    device: opt.Device = "auto",
    json: opt.Json = False,
) -> None:
    """Predict for new rows with a trained model; where they have labels, also say how well."""
    from fairweight.apps.predict import predict_rows
    from fairweight.data.safe_csv import write_csv
    from fairweight.runs.run_place import check_file
    from fairweight.runs.table_file import write_table

    opt.show_log()
    opt.introduce(run)
    if out is not None:
        check_file(out, file)
    way: dict[str, Any] = {"delimiter": delimiter and delimiter_of(delimiter), "encoding": encoding}
    way |= {"file_column": file_column, "keep_columns": listed(keep_columns or "")}
    way |= {"max_file_gb": max_file_gb, "max_megapixels": max_megapixels, "network": network, "trust_code": trust_code}
    predictions = predict_rows(run, file, opt.device_of(device), **way)
    if out is not None:
        write_table(predictions.to_pandas(), out, "predictions.csv", "%.6f")
    for note in predictions.notes:
        opt.tell(note)
    if json:
        table = None if predictions.table is None else predictions.table.to_dict()
        where = {"predicted": predictions.predicted} if out is None else {"out": str(out)}
        opt.show({"rows": len(predictions.chances), **where, "metrics": table}, "", json)
        return
    if out is None:
        write_csv(predictions.to_pandas(), sys.stdout, "%.6f")
    else:
        print(f"{len(predictions.chances):,} predictions written to {out}.")
    if predictions.table is not None:
        said = opt.fitted(predictions.table.text(opt.columns(1000)))
        print(f"\n{said}", file=sys.stderr if out is None else sys.stdout)
