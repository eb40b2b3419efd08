"""Parquet repositories of the Hugging Face hub into a data folder: only when asked, resumable, each file checked."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairweight.data._optional import need
from fairweight.data.image.cache import file_digest
from fairweight.errors import DownloadFailed, MissingData, option

RECORD = "checksums.json"


def fetch(repository: str, name: str, roots: Sequence[Path], prefix: str = "") -> Path:
    """The folder of the set with every parquet file of the repository in it, whole and as published."""
    if not roots:
        raise MissingData(
            f"say where {name} is to be kept: name a data folder with {option('data_dir')} or FAIRWEIGHT_DATA."
        )
    hub = _hub()
    folder = roots[0] / name
    try:
        info = hub.HfApi().dataset_info(repository, files_metadata=True)
        wanted = [f for f in info.siblings if f.rfilename.startswith(prefix) and f.rfilename.endswith(".parquet")]
        if not wanted:
            raise DownloadFailed(
                f"the repository {repository} holds no parquet files; put the set into {folder} by hand."
            )
        record = {}
        for file in wanted:
            published = _published(file)
            path = folder / file.rfilename
            if not (path.is_file() and published and file_digest(path) == published):
                # The hub's own client keeps partial files and goes on where it stopped.
                hub.hf_hub_download(
                    repository, file.rfilename, repo_type="dataset", revision=info.sha, local_dir=str(folder)
                )
            found = file_digest(path)
            if published and found != published:
                path.unlink()
                raise DownloadFailed(f"{path} came damaged (its sha256 is not the published one); ask again.")
            record[file.rfilename] = found
        _write_record(folder / RECORD, {"repository": repository, "revision": info.sha, "sha256": record})
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
    record = json.loads(path.read_text(encoding="utf-8"))
    for name, sha256 in record["sha256"].items():
        file = folder / name
        if file.is_file() and file_digest(file) != sha256:
            raise DownloadFailed(f"{file} is not the file that was fetched; delete it and ask for the download again.")


def _hub() -> Any:
    return need("huggingface_hub", "downloading", "'fairweight[download]'")


def _published(file: Any) -> str | None:
    """The sha256 that the hub keeps for a large file."""
    lfs = file.lfs
    found = lfs.get("sha256") if isinstance(lfs, dict) else getattr(lfs, "sha256", None)
    return None if found is None else str(found)


def _network_errors(hub: Any) -> tuple[type[Exception], ...]:
    """What the hub's client raises: its own, and that of whichever HTTP library it uses."""
    kinds: list[type[Exception]] = [OSError, hub.errors.HfHubHTTPError]
    with contextlib.suppress(ImportError):  # older clients use requests, whose errors are OSErrors
        kinds.append(importlib.import_module("httpx").HTTPError)
    return tuple(kinds)


def _write_record(path: Path, record: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1), encoding="utf-8")
    part.replace(path)
