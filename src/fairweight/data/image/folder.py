"""A folder of images: a class per subfolder, or a list of files with their labels and groups."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.data.files import file_digest, is_there
from fairweight.data.image.decode import DROP, SUFFIXES, Picture, absent
from fairweight.data.image.pixels import EncodedPixels
from fairweight.data.options import ImageOptions
from fairweight.data.parts import PART_NAMES
from fairweight.data.rows import Rows, as_texts
from fairweight.data.texts import columns_are
from fairweight.errors import FairweightError, MissingColumn, UnreadableFile, UnreadableImage, printable

if TYPE_CHECKING:
    import pandas as pd

LISTS = ("metadata.csv", "labels.csv", "metadata.tsv", "labels.tsv")
FILE_COLUMNS = ("file_name", "file", "filename", "path", "image", "image_path", "img", "image_id")


def files_rows(
    paths: Sequence[Path], root: Path, columns: pd.DataFrame | Mapping[str, Any], options: ImageOptions
) -> Rows:
    """Make rows of image files."""
    import pandas as pd

    def state(path: Path) -> str:
        """Tell what changes when a file does; of one that is not there and may be dropped, that it is not there."""
        try:
            found = path.stat()
        except (OSError, ValueError) as error:  # the latter: a zero byte
            if options.unreadable != "drop":
                raise UnreadableImage(absent(printable(str(path)))) from error
            return "absent"
        return f"{found.st_size} {found.st_mtime_ns}"

    def content() -> list[str]:
        # Names and sizes are not enough: uncompressed images have one size, whatever they show.
        found = hashlib.sha256()
        for path in paths:
            try:
                found.update(file_digest(path).encode())
            except (OSError, FairweightError):
                found.update(b"unreadable")  # decoding says so, or drops it
        return [*files, found.hexdigest()]

    files = [printable(os.path.relpath(path, root)) for path in paths]
    version = [f"{printable(str(path.absolute()))} {state(path)}" for path in paths]
    pictures = [Picture(path, printable(str(path))) for path in paths]
    pixels = EncodedPixels(len(paths), lambda: pictures, version, content, options)
    return Rows(pd.DataFrame(columns), pixels, files=files)


def loose_images(path: Path, options: ImageOptions) -> Rows | None:
    """Read an image, or those of a folder that says nothing of them; the only column is "file"."""
    if not is_there(path) or list_in(path) is not None:
        return None
    loose = _listed(path) if path.is_dir() else [path]
    images = [entry for entry in loose if entry.suffix.lower() in SUFFIXES]
    if not images:
        return None
    return files_rows(images, images[0].parent, {"file": [printable(image.name) for image in images]}, options)


def class_folders(folder: Path, options: ImageOptions) -> Rows:
    """Read a folder whose subfolders are classes; the columns are "label" and "file"."""
    subs = [sub for sub in _listed(folder) if sub.is_dir()]
    below = ((path, sub) for sub in subs for path in sorted(sub.rglob("*")) if path.suffix.lower() in SUFFIXES)
    found = [(path, sub) for path, sub in below if not any(map(_is_hidden, path.relative_to(sub).parts))]
    if not found:
        loose = sum(path.suffix.lower() in SUFFIXES for path in _listed(folder))
        raise UnreadableFile(
            f"{folder} holds {loose:,} images and no subfolders that name their classes; put each class in a "
            f"subfolder, or add a {LISTS[0]} with the columns file_name and label."
            if loose
            else f"{folder} holds no images; give a folder with a subfolder per class, or a table."
        )
    labels = [printable(sub.name) for _, sub in found]
    files = [printable(str(path.relative_to(folder))) for path, _ in found]
    return files_rows([path for path, _ in found], folder, {"label": labels, "file": files}, options)


def folder_parts(folder: Path) -> dict[str, Path]:
    """Find the given parts of a folder: its subfolders train, test and so on, or itself."""
    subs = {path.name.lower(): path for path in _listed(folder) if path.is_dir()}
    parts = {PART_NAMES[name]: path for name, path in subs.items() if name in PART_NAMES}
    return parts if "train" in parts else {"train": folder}


def list_in(folder: Path) -> Path | None:
    """Find the list of files that a folder holds."""
    return next((folder / name for name in LISTS if (folder / name).is_file()), None)


def listed_files(frame: pd.DataFrame, column: str, base: Path, options: ImageOptions) -> Rows:
    """Read a list of files, which a column names; every other column is an attribute."""
    if column not in frame.columns:
        raise MissingColumn(f"there is no column {column!r}; {columns_are(column, list(map(str, frame.columns)))}.")
    root = Path(options.root) if options.root is not None else base
    names = as_texts(frame[column])
    if None in names and options.unreadable == "refuse":
        row = f"row {names.index(None)} of the list (counted from 0)"
        raise UnreadableImage(f"{row} names no image file; fill it in, or {DROP}.")
    # A row without a name stands for the folder itself, which is no image: it is dropped.
    return files_rows([root / (name or "") for name in names], root, frame, options)


def file_column(frame: pd.DataFrame, options: ImageOptions) -> str | None:
    """Find the column that names image files: the one asked for, or one most of whose entries end like images."""
    if options.file_column is not None:
        return options.file_column
    for name in frame.columns:
        if str(name).lower() in FILE_COLUMNS:
            entries = [str(value) for value in frame[name].dropna().head(50)]
            if 2 * sum(Path(entry).suffix.lower() in SUFFIXES for entry in entries) > len(entries):
                return str(name)
    return None


def _is_hidden(name: str) -> bool:
    """Whether a program put it beside the pictures, as a Mac puts ._1.jpg and __MACOSX into archives."""
    return name.startswith(".") or name == "__MACOSX"


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not _is_hidden(path.name))
    except PermissionError as error:
        raise UnreadableFile(f"{folder} may not be read by this user; change its permissions.") from error
