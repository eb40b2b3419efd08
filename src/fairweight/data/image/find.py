"""Which of the image forms a path holds, for prediction: a folder, a list of files, a parquet file or one image."""

from __future__ import annotations

from pathlib import Path

from fairweight.data.image.decode import SUFFIXES
from fairweight.data.image.folder import class_folders, files_rows, list_in, listed_files
from fairweight.data.image.parquet import parquet_rows
from fairweight.data.image.rows import ImageRows
from fairweight.data.options import ImageOptions, TableOptions
from fairweight.errors import MissingData


def read_images(path: Path, options: ImageOptions, text: TableOptions, notes: list[str]) -> ImageRows:
    """The images of a path, labelled or not; text: how a list of files is written."""
    from fairweight.data.table.read import PARQUET, read_frame

    if not path.exists():
        raise MissingData(f"there is no file or folder {str(path)!r}; check the path.")
    if path.suffix.lower() in SUFFIXES:
        return files_rows([path], path.parent, {"file": [path.name]}, options)
    if path.suffix.lower() in PARQUET:
        return parquet_rows([path], options)
    listed = list_in(path) if path.is_dir() else path
    if listed is not None:
        frame, more = read_frame([listed], text)
        notes += more
        return listed_files(frame, listed.parent, options)
    loose = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
    if loose:
        return files_rows(loose, path, {"file": [entry.name for entry in loose]}, options)
    return class_folders(path, options)
