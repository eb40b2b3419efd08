"""Recognises a source and reads its parts: a named set, a frame, a table, a list of images, parquet or a folder."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fairweight import catalog
from fairweight.data.files import is_folder, is_there
from fairweight.data.image.folder import class_folders, file_column, folder_parts, list_in, listed_files
from fairweight.data.image.parquet import parquet_rows, shards
from fairweight.data.options import Exemplar, GroupOptions, ImageOptions, Options, Split, TableOptions
from fairweight.data.rows import Rows
from fairweight.data.table.read import check_frame, read_frame, table_files
from fairweight.data.texts import listing
from fairweight.errors import BadInput, MissingColumn, MissingData, option, printable

if TYPE_CHECKING:
    import pandas as pd

SETS = "data.sets"


@dataclass(frozen=True)
class Request:
    """What to take as label and group, how to read a source, and the folders to look for it in."""

    label: str | None
    group: tuple[str, ...] | None  # None: the source's own; empty: none
    folders: tuple[Path, ...]  # to look in, first to last
    download: bool
    seed: int
    options: Options


@dataclass(frozen=True)
class Found:
    """The parts that a source comes with, and its defaults."""

    name: str
    parts: dict[str, Rows]
    label: str
    group: tuple[str, ...] = ()
    groups: GroupOptions = field(default_factory=GroupOptions)
    split: Split = field(default_factory=Split)
    exemplar: Exemplar = field(default_factory=Exemplar)
    image: ImageOptions = field(default_factory=ImageOptions)  # those that the images were read with
    exclude: tuple[str, ...] = ()  # columns that are not inputs
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "table" if self.parts["train"].pixels is None else "image"


class NamedSet(Protocol):
    """A named data set: one file in data/sets, one public class."""

    label: str  # its usual label
    group: tuple[str, ...]  # its usual groups; empty: the label stands for the group
    needs: Sequence[str]  # the files that it is read from, for people

    def find(self, request: Request) -> Found:
        """Read its parts from the folders of the request."""
        ...


def named_set(name: str) -> NamedSet:
    """Make the named data set."""
    instance: NamedSet = catalog.load(SETS, name)()
    return instance


def folders(data_dir: str | Path | None) -> tuple[Path, ...]:
    """List the folders to look in; FAIRWEIGHT_DATA may name several, separated as in PATH."""
    if data_dir is None:
        return tuple(Path(entry) for entry in os.environ.get("FAIRWEIGHT_DATA", "").split(os.pathsep) if entry)
    if Path(data_dir).is_file():
        raise MissingData(f"the data folder {str(data_dir)!r} is a file; name the folder that the sets lie in.")
    return (Path(data_dir),)


def find(source: str | Path | pd.DataFrame, request: Request) -> Found:
    """Find the parts of a source, with those that the options take from files of their own."""
    if isinstance(source, str) and source.replace("_", "-") in catalog.names(SETS):
        found = named_set(source).find(request)
    elif isinstance(source, str | Path):
        found = _from_path(str(source), request)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        image, notes = request.options.image or ImageOptions(), list[str]()
        frame = check_frame(source, "the frame", notes)
        column = image.file_column
        rows = Rows(frame) if column is None else listed_files(frame, column, Path(), image)
        found = _from_user("frame", {"train": rows}, request, notes, image)
    else:
        raise BadInput(f"a source is a name, a path or a pandas frame, not {type(source).__name__}.")
    return _add_parts_from_files(found, request)


def _from_path(source: str, request: Request) -> Found:
    image = request.options.image or ImageOptions()
    notes: list[str] = []
    path = Path(source)
    if not is_there(path) and not any(mark in source for mark in "*?["):
        close = difflib.get_close_matches(source, catalog.names(SETS), n=1)
        hint = f"did you mean {close[0]!r}" if close else f"name a set: {', '.join(catalog.names(SETS))}"
        raise MissingData(f"there is no file or folder {source!r}; check the path, or {hint}.")
    table = request.options.table
    if not is_folder(path) or list_in(path) is not None:
        parts = {"train": read_rows(source, table, image, notes)}
    elif files_by_part := shards(path):
        if "train" not in files_by_part:
            raise MissingData(f"{path} holds parquet files for {listing(files_by_part)} and none for train; add it.")
        parts = {name: file_rows(files, table, image, notes) for name, files in files_by_part.items()}
    else:
        parts = {name: read_rows(sub, table, image, notes) for name, sub in folder_parts(path).items()}
    return _from_user(printable(path.name), parts, request, notes, image)


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


def _from_user(name: str, parts: dict[str, Rows], request: Request, notes: list[str], image: ImageOptions) -> Found:
    names = parts["train"].names()
    if request.label is None and "label" not in names:
        raise MissingColumn(f"name the label column with {option('label')}; the columns are {listing(names, 12)}.")
    return Found(name, parts, request.label or "label", notes=tuple(notes), image=image)


def _add_parts_from_files(found: Found, request: Request) -> Found:
    split, exemplar = request.options.split or found.split, request.options.exemplar or found.exemplar
    files = {"test": split.test, "validation": split.validation}
    files |= {"exemplar": exemplar.source} if exemplar.source not in ("train", "validation") else {}
    parts, notes = dict(found.parts), list(found.notes)
    for name, file in files.items():
        if not isinstance(file, str):
            continue
        parts[name] = read_rows(file, request.options.table, found.image, notes)
        if (parts[name].pixels is None) != (parts["train"].pixels is None):
            raise BadInput(f"the {name} rows of {file!r} are of another kind than the train rows; give both alike.")
        notes.append(f"{name.capitalize()} rows come from {printable(Path(file).name)}.")
    return replace(found, parts=parts, notes=tuple(notes))
