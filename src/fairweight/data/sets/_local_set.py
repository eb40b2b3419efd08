"""A named set that lies in a data folder, or is fetched from the Hugging Face hub when asked, each file checked."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fairweight.data.files import file_digest, read_text
from fairweight.data.image.parquet import named, parquet_rows, shards
from fairweight.data.options import ImageOptions
from fairweight.data.rows import Rows
from fairweight.data.source import Found, Request
from fairweight.errors import DownloadFailed, MissingData, MissingDependency, UnreadableFile, option

RECORD = "checksums.json"


def fetch(repository: str, name: str, roots: Sequence[Path], prefix: str = "") -> Path:
    """Fetch every parquet file of the repository into the folder of the set, whole and as published."""
    if not roots:
        how = f"{option('data_dir')} or FAIRWEIGHT_DATA"
        raise MissingData(f"say where {name} is to be kept: name a data folder with {how}.")
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingDependency(
            "downloading needs huggingface_hub; install it with: pip install 'fairweight[download]'."
        ) from error
    folder = roots[0] / name
    try:
        info = hub.HfApi().dataset_info(repository, files_metadata=True)
        files = [f for f in info.siblings if f.rfilename.startswith(prefix) and f.rfilename.endswith(".parquet")]
        if not files:
            raise DownloadFailed(f"{repository} holds no parquet files; put the set into {folder} by hand.")
        record = {}
        for file in files:
            # The hub keeps the sha256 of large files.
            published = file.lfs.get("sha256") if isinstance(file.lfs, dict) else getattr(file.lfs, "sha256", None)
            path = folder / file.rfilename
            if not (path.is_file() and published and file_digest(path) == published):
                # The hub's own client keeps partial files and goes on where it stopped.
                where = {"repo_type": "dataset", "revision": info.sha, "local_dir": str(folder)}
                hub.hf_hub_download(repository, file.rfilename, **where)
            digest = file_digest(path)
            if published and digest != published:
                path.unlink()
                raise DownloadFailed(f"{path} came damaged (its sha256 is not the published one); ask again.")
            record[file.rfilename] = digest
        part = (folder / RECORD).with_suffix(".part")
        part.write_text(json.dumps({"repository": repository, "revision": info.sha, "sha256": record}, indent=1))
        part.replace(folder / RECORD)
    except _network_errors(hub) as error:
        reason = str(error).strip().split("\n")[0][:200]
        raise DownloadFailed(
            f"{name} could not be fetched from {repository} ({reason}); ask again to resume, or put its parquet files "
            f"into {folder}."
        ) from error
    return folder


def check_record(folder: Path) -> None:
    """Refuse a fetched file that was cut short or changed since."""
    path = folder / RECORD
    if not path.is_file():
        return
    try:
        record = dict(json.loads(read_text(path))["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DownloadFailed(f"{path} is damaged; delete it and ask for the download again.") from error
    for name, sha256 in record.items():
        file = folder / name
        if file.is_file() and file_digest(file) != sha256:
            raise DownloadFailed(f"{file} is not the file that was fetched; delete it and ask for the download again.")


def _network_errors(hub: Any) -> tuple[type[Exception], ...]:
    """List what the hub's client raises: its own, and that of whichever HTTP library it uses."""
    kinds: list[type[Exception]] = [OSError, hub.errors.HfHubHTTPError]
    with contextlib.suppress(ImportError):  # older clients use requests, whose errors are OSErrors
        kinds.append(importlib.import_module("httpx").HTTPError)
    return tuple(kinds)


Content = TypeVar("Content")


class LocalSet:
    """What a set is called, what it is read from, and where it can be fetched."""

    name: str
    label: str
    group: tuple[str, ...] = ()
    needs: Sequence[str]
    repository: str | None = None
    prefix = ""  # of the repository's files that are wanted

    def search(self, request: Request, read: Callable[[Path], Content | None]) -> Content:
        """Read the first folder that holds what `read` knows; otherwise fetch it, or say what to put where."""
        for folder in self._folders(request.folders):
            try:
                check_record(folder)
                content = read(folder)
            except (MissingData, DownloadFailed):
                if not (request.download and self.repository):
                    raise
                content = None  # what an earlier download left unfinished is fetched again
            if content is not None:
                return content
        if request.download and self.repository is not None:
            content = read(fetch(self.repository, self.name, request.folders, self.prefix))
            if content is not None:
                return content
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
    files_by_part = {rename.get(part, part): files for part, files in shards(folder).items()}
    if not {"train", "test"} <= files_by_part.keys():
        return None
    parts = {}
    for part, files in files_by_part.items():
        rows = parquet_rows(files, options)
        if rows is None:
            raise UnreadableFile(f"{files[0].name} has no column of encoded images (a struct of bytes and path).")
        columns = {column: named(rows.frame[column], names[column]) for column in names if column in rows.names()}
        parts[part] = replace(rows, frame=rows.frame.assign(**columns))
    return parts
