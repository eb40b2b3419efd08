"""Write a table into a file of the user's, as parquet or CSV by its name."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from fairweight.data.safe_csv import write_csv
from fairweight.errors import BadInput, NoSpace, option
from fairweight.runs.folder import SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

PARQUET = (".parquet", ".pq")


def check_table_file(path: Path, usual: str = "table.csv") -> None:
    """Refuse a file whose name is not that of a parquet or CSV file; usual: the name of such a file."""
    if path.is_dir():
        raise BadInput(f"{option('out', path)} is a folder; name a file, such as {path / usual}.")
    if path.suffix.lower() not in (*PARQUET, ".csv", ""):
        raise BadInput(f"{option('out', path)}: name a file that ends in .csv or .parquet.")


def write_table(table: pd.DataFrame, path: Path, usual: str = "table.csv", float_format: str | None = None) -> Path:
    """Write whole or not at all; a file of a finished run is replaced so that the run stays valid."""
    check_table_file(path, usual)
    content = io.BytesIO()
    if path.suffix.lower() in PARQUET:
        table.to_parquet(content, index=False, write_page_checksum=True)
    else:
        write_csv(table, content, float_format)
    try:
        if path.name in SEALED and (path.parent / MANIFEST).is_file():
            with claimed(path.parent):
                RunFolder(path.parent).put({path.name: content.getvalue()})
        else:
            write_atomically(path, content.getvalue())
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}); choose another file with {option('out')}."
        raise NoSpace(message) from error
    return path
