"""Decoded pixels on disk, under a name that depends on their sources and form; written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairweight.data.image.decode import Allocate
from fairweight.data.image.normalize import Pixels, pixel_sums
from fairweight.errors import NoSpace

PIXELS, SUMS, FACTS = "pixels.npy", "sums.npy", "facts.json"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


def find(folder: Path, key: str) -> Path | None:
    """Find the entry of that name, if it was written: a folder with pixels.npy, sums.npy and facts.json."""
    entry = folder / key
    return entry if (entry / FACTS).is_file() and (entry / PIXELS).is_file() else None


def facts(entry: Path) -> dict[str, Any]:
    """Read what was written beside the pixels."""
    found: dict[str, Any] = json.loads((entry / FACTS).read_text(encoding="utf-8"))
    return found


def write(folder: Path, key: str, fill: Callable[[Allocate], dict[str, Any]]) -> Path:
    """Write a new entry: `fill` decodes into the memory that it allocates and gives the facts to keep."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{key[:8]}-", dir=folder))
    except OSError as error:
        raise NoSpace(f"cannot write to {folder} ({error.strerror}); give another cache folder.") from error
    opened: list[np.memmap[Any, np.dtype[np.uint8]]] = []

    def allocate(shape: tuple[int, int, int, int]) -> Pixels:
        path = work / PIXELS
        path.unlink(missing_ok=True)
        mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        opened.append(mapped)
        _reserve(path)
        return mapped

    try:
        written = fill(allocate)
        np.save(work / SUMS, pixel_sums(opened[-1]))
        opened[-1].flush()
        (work / FACTS).write_text(json.dumps(written), encoding="utf-8")
        target = folder / key
        try:
            work.rename(target)
        except OSError:
            # Another process has written the same entry meanwhile.
            if find(folder, key) is None:
                raise
        return target
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
