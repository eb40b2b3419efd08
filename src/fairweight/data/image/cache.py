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

PIXELS, SUMS, FACTS = "pixels.npy", "sums.npy", "facts.json"  # an entry is a folder with these
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def cache_folder(chosen: str | None) -> Path:
    """Choose where decoded images are kept: as asked, FAIRWEIGHT_CACHE, or the user's cache folder."""
    if named := chosen or os.environ.get("FAIRWEIGHT_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairweight"


def key_of(sources: Sequence[str], form: Any) -> str:
    """Name an entry by its sources and form."""
    words = json.dumps([3, list(sources), form], sort_keys=True)  # 3: the layout of an entry
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def find(folder: Path, key: str) -> Path | None:
    """Find the entry of that name, if it was written."""
    entry = folder / key
    return entry if (entry / FACTS).is_file() and (entry / PIXELS).is_file() else None


def facts(entry: Path) -> dict[str, Any]:
    """Read what was written beside the pixels."""
    found: dict[str, Any] = json.loads((entry / FACTS).read_text(encoding="utf-8"))
    return found


def write(folder: Path, key: str, fill: Callable[[Allocate], dict[str, Any]]) -> Path:
    """Write a new entry: `fill` decodes into the memory that it allocates and gives the facts to keep."""
    work, opened, target = None, list[Pixels](), folder / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{key[:8]}-", dir=folder))
        path = work / PIXELS

        def allocate(shape: tuple[int, int, int, int]) -> Pixels:
            path.unlink(missing_ok=True)
            opened.append(np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape))
            _reserve(path)
            return opened[-1]

        written = fill(allocate)
        np.save(work / SUMS, pixel_sums(opened[-1]))
        opened.clear()  # which writes the pixels out
        (work / FACTS).write_text(json.dumps(written), encoding="utf-8")
        try:
            work.rename(target)
        except OSError:
            if find(folder, key) is None:  # otherwise another process has written the same entry meanwhile
                raise
        return target
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpace(f"the disk of {folder} is full; free some space or give another cache folder.") from error
        raise NoSpace(f"cannot write to {folder} ({error.strerror or error}); give another cache folder.") from error
    finally:
        opened.clear()
        if work is not None:
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
