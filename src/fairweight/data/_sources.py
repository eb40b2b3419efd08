"""What a source is, by looking at it: a frame, a table, a list of images, parquet with images, or a folder."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight import catalog
from fairweight.data._found import Found, NamedSet, Request, digest
from fairweight.data._texts import listing
from fairweight.data.image.folder import class_folders, file_column, folder_parts, list_in, listed_files
from fairweight.data.image.parquet import image_column, parquet_rows, shards
from fairweight.data.image.rows import ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.table.read import PARQUET, check_frame, is_table, kind_of, read_frame, table_files
from fairweight.data.table.rows import FrameRows
from fairweight.errors import BadInput, MissingColumn, MissingData, option

if TYPE_CHECKING:
    import pandas as pd

SETS = "data.sets"


def find(source: str | Path | pd.DataFrame, request: Request) -> Found:
    """The parts of a source, with those that the options take from files of their own."""
    if isinstance(source, str) and source.replace("_", "-") in catalog.names(SETS):
        return _also(named_set(source).find(request), request)
    if isinstance(source, str | Path):
        return _also(_from_path(str(source), request), request)
    if not hasattr(source, "columns") or not hasattr(source, "iloc"):
        raise BadInput(f"a source is a name, a path or a pandas frame, not {type(source).__name__}.")
    notes: list[str] = []
    frame = check_frame(source, "the frame", notes)
    image = request.options.image or ImageOptions()
    rows = FrameRows(frame) if image.file_column is None else listed_files(frame, Path(), image)
    return _also(_found("frame", {"train": rows}, request, notes, {"train": digest(rows)}, image), request)


def named_set(name: str) -> NamedSet:
    """The named data set."""
    made: NamedSet = catalog.load(SETS, name)()
    return made


def _from_path(source: str, request: Request) -> Found:
    image = request.options.image or ImageOptions()
    notes: list[str] = []
    path = Path(source)
    if not path.exists() and not any(mark in source for mark in "*?["):
        close = difflib.get_close_matches(source, catalog.names(SETS), n=1)
        hint = f"did you mean {close[0]!r}" if close else f"named sets are {', '.join(catalog.names(SETS))}"
        raise MissingData(f"there is no file or folder {source!r}; check the path, or {hint}.")
    parts: dict[str, Any]
    if not path.is_dir():
        parts = {"train": _rows(source, request, image, notes)}
    elif list_in(path) is not None:
        parts = {"train": _rows(str(list_in(path)), request, image, notes)}
    elif found := shards(path):
        if "train" not in found:
            raise MissingData(f"{path} holds parquet files for {listing(found)} and none for train; add it.")
        parts = {name: _parquet(files, request, image, notes) for name, files in found.items()}
    else:
        parts = {name: class_folders(sub, image) for name, sub in folder_parts(path).items()}
    content = {name: digest(rows) for name, rows in parts.items()}
    return _found(path.name, parts, request, notes, content, image)


def _rows(source: str, request: Request, image: ImageOptions, notes: list[str]) -> FrameRows | ImageRows:
    """The rows of a file, a glob or a list of images."""
    paths = table_files(source)
    if all(kind_of(path) in PARQUET for path in paths) and not any(path.is_dir() for path in paths):
        return _parquet(paths, request, image, notes)
    frame, more = read_frame(paths, request.options.table)
    notes += more
    if file_column(frame, image) is not None:
        return listed_files(frame, paths[0].parent, image)
    return FrameRows(frame)


def _parquet(paths: Sequence[Path], request: Request, image: ImageOptions, notes: list[str]) -> FrameRows | ImageRows:
    if paths[0].stat().st_size and image_column(paths[0]) is not None:
        return parquet_rows(paths, image)
    frame, more = read_frame(paths, request.options.table)
    notes += more
    return FrameRows(frame) if file_column(frame, image) is None else listed_files(frame, paths[0].parent, image)


def _found(
    name: str, parts: dict[str, Any], request: Request, notes: list[str], content: dict[str, str], image: ImageOptions
) -> Found:
    label = request.label
    names = parts["train"].names()
    if label is None:
        if "label" not in names:
            raise MissingColumn(f"name the label column with {option('label')}; the columns are {listing(names, 12)}.")
        label = "label"
    return Found(name, parts, label, notes=tuple(notes), content=content, image=image)


def _also(found: Found, request: Request) -> Found:
    """With the parts that come from files of their own."""
    split, exemplar = request.options.split or found.split, request.options.exemplar or found.exemplar
    files = {name: getattr(split, name) for name in ("test", "validation") if isinstance(getattr(split, name), str)}
    if exemplar.source not in ("train", "validation"):
        files["exemplar"] = exemplar.source
    if not files:
        return found
    parts: dict[str, Any] = dict(found.parts)
    notes, content = list(found.notes), dict(found.content)
    for name, file in files.items():
        path = Path(file)
        if path.is_dir():
            parts[name] = class_folders(path, found.image)
        elif path.exists() and not is_table(path) and request.options.table.delimiter is None:
            raise BadInput(f"the {name} rows are to come from {file!r}, which is not a table or a folder of images.")
        else:
            parts[name] = _rows(file, request, found.image, notes)
        if type(parts[name]) is not type(parts["train"]):
            raise BadInput(f"the {name} rows of {file!r} are of another kind than the train rows; give both alike.")
        content[name] = digest(parts[name])
        notes.append(f"{name.capitalize()} rows come from {path.name}.")
    return replace(found, parts=parts, notes=tuple(notes), content=content)
