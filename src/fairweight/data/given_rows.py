"""Rows of one part that a path or a glob names: a table, a list of images, parquet with images, or a folder of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairweight.data.files import is_folder
from fairweight.data.image.folder import class_folders, file_column, list_in, listed_files
from fairweight.data.image.parquet import parquet_rows
from fairweight.data.options import ImageOptions, TableOptions
from fairweight.data.rows import Rows
from fairweight.data.table.read import read_frame, table_files


def read_rows(source: str | Path, table: TableOptions, image: ImageOptions, notes: list[str]) -> Rows:
    """Read what a path or a glob names; table: how text is written."""
    path = Path(source)
    if not is_folder(path):
        return file_rows(table_files(str(source)), table, image, notes)
    listed = list_in(path)
    return class_folders(path, image) if listed is None else file_rows([listed], table, image, notes)


def file_rows(paths: Sequence[Path], table: TableOptions, image: ImageOptions, notes: list[str]) -> Rows:
    """Read files that hold one table, one list of images, or encoded images."""
    if (encoded := parquet_rows(paths, image)) is not None:
        return encoded
    frame = read_frame(paths, table, notes)
    column = file_column(frame, image)
    return Rows(frame) if column is None else listed_files(frame, column, paths[0].parent, image)
