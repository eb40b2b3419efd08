"""A named set that lies in a data folder, or is fetched when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fairweight.data.download import check_record, fetch
from fairweight.data.image.parquet import named, parquet_rows, shards
from fairweight.data.options import ImageOptions
from fairweight.data.rows import Rows
from fairweight.data.source import Found, Request
from fairweight.errors import DownloadFailed, MissingData, option

Made = TypeVar("Made")


class LocalSet:
    """What a set is called, what it is read from, and where it can be fetched."""

    name: str
    label: str
    group: tuple[str, ...] = ()
    needs: Sequence[str]
    repository: str | None = None
    prefix = ""  # of the repository's files that are wanted

    def search(self, request: Request, read: Callable[[Path], Made | None]) -> Made:
        """Read the first folder that holds what `read` knows; otherwise fetch it, or say what to put where."""
        for folder in self._folders(request.folders):
            try:
                check_record(folder)
                made = read(folder)
            except (MissingData, DownloadFailed):
                if not (request.download and self.repository):
                    raise
                made = None  # what an earlier download left unfinished is fetched again
            if made is not None:
                return made
        if request.download and self.repository is not None:
            made = read(fetch(self.repository, self.name, request.folders, self.prefix))
            if made is not None:
                return made
        where = " or ".join(str(root / self.name) for root in request.folders) or (
            f"a folder {self.name} in your data folder and name that data folder with {option('data_dir')} or "
            "FAIRWEIGHT_DATA"
        )
        download = f", or fetch it with {option('download')} (from {self.repository})" if self.repository else ""
        raise MissingData(f"{self.name} is not here: put {' and '.join(self.needs)} into {where}{download}.")

    def _folders(self, roots: Sequence[Path]) -> list[Path]:
        """List the folders of the set that exist, under any usual spelling of its name."""
        plain = self.name.replace("-", "")
        spellings = dict.fromkeys([self.name, self.name.replace("-", "_"), plain, self.name.upper(), plain.upper()])
        return [root / spelling for root in roots for spelling in spellings if (root / spelling).is_dir()]


class ImageSet(LocalSet):
    """A set of images whose label stands for the group."""

    def read(self, folder: Path, image: ImageOptions) -> dict[str, Rows] | None:
        """Read train and test from a folder; None where it does not hold them."""
        raise NotImplementedError

    def find(self, request: Request) -> Found:
        image = request.options.image or ImageOptions()
        parts = self.search(request, lambda folder: self.read(folder, image))
        return Found(self.name, parts, self.label, image=image)


def parquet_parts(
    folder: Path, options: ImageOptions, rename: Mapping[str, str], names: Mapping[str, Sequence[str]]
) -> dict[str, Rows] | None:
    """Read train and test from the parquet shards under a folder; class numbers get names where given."""
    found = {rename.get(part, part): files for part, files in shards(folder).items()}
    if not {"train", "test"} <= found.keys():
        return None
    parts = {}
    for part, files in found.items():
        rows = parquet_rows(files, options)
        columns = {column: named(rows.frame[column], names[column]) for column in names if column in rows.names()}
        parts[part] = replace(rows, frame=rows.frame.assign(**columns))
    return parts
