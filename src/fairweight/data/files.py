"""The doors through which files are opened: a file that is not what it says is refused in one sentence."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Any

from fairweight.errors import MissingData, UnreadableFile


def read_bytes(path: Path) -> bytes:
    """Read a whole file, unpacked where it is packed with gzip."""
    _check(path)
    try:
        content = path.read_bytes()
    except PermissionError as error:
        raise _forbidden(path) from error
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path} is not a whole gzip file; it may be cut short: copy it again.") from error


def open_parquet(path: Path) -> Any:
    """Open a pyarrow.parquet.ParquetFile."""
    from pyarrow import ArrowException, parquet

    _check(path)
    try:
        return parquet.ParquetFile(path)
    except PermissionError as error:
        raise _forbidden(path) from error
    except (ArrowException, OSError) as error:
        raise UnreadableFile(f"{path} is not a whole parquet file; it may be cut short: copy it again.") from error


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """Read a pyarrow.Table; columns: those to read, or all."""
    from pyarrow import ArrowException

    file = open_parquet(path)
    try:
        return file.read(columns=columns)
    except (ArrowException, OSError) as error:
        raise UnreadableFile(f"{path} is damaged; copy it again.") from error


def file_digest(path: Path) -> str:
    """Compute the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path) -> None:
    if path.is_dir():
        raise UnreadableFile(f"{path} is a folder; name the file inside it.")
    if not path.exists():
        raise MissingData(f"there is no file {str(path)!r}; check the path.")
    if path.stat().st_size == 0:
        raise UnreadableFile(f"{path} is empty; give a file that holds data.")


def _forbidden(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path} may not be read by this user; change its permissions.")
