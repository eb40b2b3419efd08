"""Parquet repositories of the Hugging Face hub into a data folder: only when asked, resumable, each file checked."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairweight.data.files import file_digest, read_text
from fairweight.errors import DownloadFailed, MissingData, MissingDependency, option

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
        wanted = [f for f in info.siblings if f.rfilename.startswith(prefix) and f.rfilename.endswith(".parquet")]
        if not wanted:
            raise DownloadFailed(f"{repository} holds no parquet files; put the set into {folder} by hand.")
        record = {}
        for file in wanted:
            # The hub keeps the sha256 of large files.
            published = file.lfs.get("sha256") if isinstance(file.lfs, dict) else getattr(file.lfs, "sha256", None)
            path = folder / file.rfilename
            if not (path.is_file() and published and file_digest(path) == published):
                # The hub's own client keeps partial files and goes on where it stopped.
                where = {"repo_type": "dataset", "revision": info.sha, "local_dir": str(folder)}
                hub.hf_hub_download(repository, file.rfilename, **where)
            found = file_digest(path)
            if published and found != published:
                path.unlink()
                raise DownloadFailed(f"{path} came damaged (its sha256 is not the published one); ask again.")
            record[file.rfilename] = found
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
