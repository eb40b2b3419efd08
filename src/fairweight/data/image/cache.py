"""Decoded pixels on disk, under a name that depends on their sources and form; written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.data.image.normalize import pixel_sums
from fairweight.errors import NoSpace

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Entry:
    """One folder of the cache: pixels.npy, and what is known of them."""

    path: Path

    @property
    def pixels(self) -> Path:
        """The decoded images."""
        return self.path / "pixels.npy"

    @property
    def sums(self) -> Path:
        """Each image's sums, for statistics of any set of rows."""
        return self.path / "sums.npy"

    def facts(self) -> dict[str, Any]:
        """Read what was written beside them."""
        facts: dict[str, Any] = json.loads((self.path / "facts.json").read_text(encoding="utf-8"))
        return facts


def cache_folder(chosen: str | None) -> Path:
    """Choose where decoded images are kept: as asked, FAIRWEIGHT_CACHE, or the user's cache folder."""
    if chosen is not None:
        return Path(chosen)
    if named := os.environ.get("FAIRWEIGHT_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairweight"


def key_of(sources: Sequence[str], form: Any) -> str:
    """Name an entry by its sources and form."""
    words = json.dumps([3, list(sources), form], sort_keys=True)  # 3: the layout of an entry
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def find(folder: Path, key: str) -> Entry | None:
    """Find the entry of that name, if it was written."""
    entry = Entry(folder / key)
    return entry if (entry.path / "facts.json").is_file() and entry.pixels.is_file() else None


def write(
    folder: Path, key: str, fill: Callable[[Callable[[tuple[int, int, int, int]], Pixels]], dict[str, Any]]
) -> Entry:
    """Write a new entry: `fill` decodes into the memory that it allocates and gives the facts to keep."""
    import numpy as np

    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{key[:8]}-", dir=folder))
    except OSError as error:
        raise NoSpace(f"cannot write to {folder} ({error.strerror}); give another cache folder.") from error
    opened: list[np.memmap[Any, np.dtype[np.uint8]]] = []

    def allocate(shape: tuple[int, int, int, int]) -> Pixels:
        path = work / "pixels.npy"
        path.unlink(missing_ok=True)
        mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        opened.append(mapped)
        _reserve(path)
        return mapped

    try:
        facts = fill(allocate)
        np.save(work / "sums.npy", pixel_sums(opened[-1]))
        opened[-1].flush()
        (work / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        target = folder / key
        try:
            work.rename(target)
        except OSError:
            # Another process has written the same entry meanwhile.
            if find(folder, key) is None:
                raise
        return Entry(target)
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpace(f"the disk of {folder} is full; free some space or give another cache folder.") from error
        raise NoSpace(f"cannot write to {folder} ({error.strerror or error}); give another cache folder.") from error
    finally:
        opened.clear()
        shutil.rmtree(work, ignore_errors=True)


def _reserve(path: Path) -> None:
    """Take the file's blocks now: a mapped file is sparse, and a full disk at a later write would kill the process."""
    size = path.stat().st_size
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot reserve
                    raise
