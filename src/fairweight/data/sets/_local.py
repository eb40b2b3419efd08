"""How named sets are found: in a data folder, or fetched when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from fairweight.data._found import Found, Request, digest
from fairweight.data._texts import Texts
from fairweight.data.download import check_record, fetch
from fairweight.data.image.parquet import parquet_rows, shards
from fairweight.data.image.rows import ImageRows
from fairweight.data.locate import candidates, missing
from fairweight.data.options import ImageOptions
from fairweight.errors import DownloadFailed, MissingData

Made = TypeVar("Made")


@dataclass(frozen=True)
class Place:
    """What a set is called, what it is read from, and where it can be fetched."""

    name: str
    needs: Sequence[str]
    repository: str | None = None
    prefix: str = ""  # of the repository's files that are wanted

    def search(self, request: Request, read: Callable[[Path], Made | None]) -> Made:
        """What the first folder holds that `read` knows; otherwise the download, or a sentence on what to put where."""
        fetching = request.download and self.repository is not None
        for folder in candidates(self.name, request.folders):
            try:
                check_record(folder)
                made = read(folder)
            except (MissingData, DownloadFailed):
                if not fetching:
                    raise
                made = None  # what an earlier download left unfinished is fetched again
            if made is not None:
                return made
        if request.download and self.repository is not None:
            made = read(fetch(self.repository, self.name, request.folders, self.prefix))
            if made is not None:
                return made
        raise missing(self.name, self.needs, request.folders, self.repository)


def parquet_parts(
    folder: Path, options: ImageOptions, rename: Mapping[str, str], names: Mapping[str, Sequence[str]] | None = None
) -> dict[str, ImageRows] | None:
    """Train and test from the parquet shards under a folder; class numbers get names where given."""
    found = shards(folder)
    if not {"train", "test"} <= {rename.get(part, part) for part in found}:
        return None
    parts = {}
    for part, files in found.items():
        rows = parquet_rows(files, options)
        if names:
            columns = {column: _named(texts, names.get(column)) for column, texts in rows.columns.items()}
            rows = replace(rows, columns=columns, orders={**rows.orders, **names})
        parts[rename.get(part, part)] = rows
    return parts


def image_found(
    name: str, parts: dict[str, ImageRows], label: str, image: ImageOptions, notes: Sequence[str] = ()
) -> Found:
    """An image set whose label stands for the group."""
    content = {part: digest(rows) for part, rows in parts.items()}
    return Found(name, parts, label, notes=tuple(notes), content=content, image=image)


def _named(texts: Texts, names: Sequence[str] | None) -> Texts:
    if names is None or not all(text is None or text.isdigit() for text in texts):
        return texts
    return [None if text is None else names[int(text)] for text in texts]
