"""Opens and reads files safely: a file that is not what it says is refused in one sentence.

Only regular files are opened, and only up to a size: a pipe or a device never ends, and a few packed megabytes may
unpack to more than the machine has.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from io import BufferedReader
from pathlib import Path
from typing import Any

from fairweight.errors import BadInput, MissingData, UnreadableFile, option

MAX_FILE_GB = 2.0
_GB = 1_000_000_000
_GZIP = b"\x1f\x8b"
_MAX_RATIO = 1032  # deflate packs no tighter, so a small enough file needs no counting
_CHUNK = 1 << 20
_MAX_GB: ContextVar[float] = ContextVar("fairweight_max_file_gb", default=MAX_FILE_GB)


@contextlib.contextmanager
def bounded(gigabytes: float | None) -> Iterator[None]:
    """Read files of up to this size while the block runs, unpacked; None: as it was."""
    limit = _MAX_GB.get() if gigabytes is None else gigabytes
    if not 0 < limit < 1e6:
        raise BadInput(f"{option('max_file_gb')} is {gigabytes}; give a number above 0, below a million.")
    token = _MAX_GB.set(limit)
    try:
        yield
    finally:
        _MAX_GB.reset(token)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a folder, pipe, socket or device is refused, and never waited for."""
    file = None
    try:
        _refuse_irregular(path, path.stat().st_mode)  # before opening: to open some devices is to act on them
        # Without waiting, should the file have become a pipe since; what was opened is what is checked.
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
        _refuse_irregular(path, os.fstat(file.fileno()).st_mode)
        return file
    except UnreadableFile:
        if file is not None:
            file.close()
        raise
    except PermissionError as error:
        raise _no_permission(path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingData(f"there is no file {str(path)!r}; check the path.") from error
    except (OSError, ValueError) as error:  # too long a name, a circle of links, a zero byte
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableFile(f"{str(path)!r} cannot be opened ({what}); check the path.") from error


def is_there(path: Path) -> bool:
    """True if there is such a file or folder; a name that no file can have is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """True if there is such a folder."""
    return is_there(path) and path.is_dir()


def read_bytes(path: Path) -> bytes:
    """Read a whole file, unpacked where it is packed with gzip."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _limit():
            raise _too_large(path, "holds")
        try:
            content = file.read(size + 1)  # room is made for as many at once
        except OSError as error:
            raise UnreadableFile(f"{path} cannot be read ({error.strerror}); copy it again.") from error
    if not content:
        raise _empty(path)
    return content if content[:2] != _GZIP else _unpack(path, content)


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a whole text file of a published set."""
    try:
        return read_bytes(path).decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{path} is not written in {encoding}; copy it again.") from error


def open_parquet(path: Path) -> Any:
    """Open a pyarrow.parquet.ParquetFile."""
    import pyarrow as pa
    from pyarrow import parquet

    with open_regular(path) as opened:
        size = os.fstat(opened.fileno()).st_size
    if size == 0:
        raise _empty(path)
    try:
        file = parquet.ParquetFile(pa.OSFile(os.fsencode(path)))  # a name may be no UTF-8
        sizes = [file.metadata.row_group(place).total_byte_size for place in range(file.metadata.num_row_groups)]
        # Repeated values take no place in the file and eight bytes each in memory.
        unpacked = max(sum(sizes), 8 * file.metadata.num_rows * file.metadata.num_columns)
    except PermissionError as error:
        raise _no_permission(path) from error
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{path} is not a whole parquet file; it may be cut short: copy it again.") from error
    if max(size, unpacked) > _limit():
        raise _too_large(path, "unpacks to")
    return file


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
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _no_permission(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path} may not be read by this user; change its permissions.")


def _limit() -> int:
    return int(min(_MAX_GB.get() * _GB, 2**62))


def _refuse_irregular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UnreadableFile(f"{path} is a folder; name the file inside it.")
    if not stat.S_ISREG(mode):
        raise UnreadableFile(f"{path} is a pipe, a socket or a device, not a file; copy its content into a file.")


def _unpack(path: Path, content: bytes) -> bytes:
    try:
        if len(content) * _MAX_RATIO > _limit():  # count the bytes that it unpacks to, and keep none of them
            total = 0
            with gzip.open(io.BytesIO(content)) as packed:
                while piece := packed.read(_CHUNK):
                    total += len(piece)
                    if total > _limit():
                        raise _too_large(path, "unpacks to")
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path} is not a whole gzip file; it may be cut short: copy it again.") from error


def _too_large(path: Path, verb: str) -> UnreadableFile:
    limit = f"{_MAX_GB.get():g} GB"
    return UnreadableFile(f"{path} {verb} more than {limit}; if that is right, raise {option('max_file_gb')}.")


def _empty(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path} is empty; give a file that holds data.")
