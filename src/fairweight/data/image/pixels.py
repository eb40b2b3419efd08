"""Where the pixels of images come from: memory, or encoded files that are decoded once and kept on disk.

An entry of the cache has a name that depends on its sources and form, and is written whole or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fairweight.data.image.decode import Allocate, Decoder, Form, Picture
from fairweight.data.image.normalize import Pixels, Sums, pixel_sums
from fairweight.data.options import ImageOptions
from fairweight.errors import NoSpace

PIXELS, SUMS, FACTS = "pixels.npy", "sums.npy", "facts.json"  # an entry is a folder with these
_WORK = ".writing-"  # the folder of an entry until it is whole begins with this
_YOUNG = 60.0  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def find_entry(folder: Path, key: str) -> Path | None:
    """Find the entry of that name, if it was written and all of it is still there."""
    entry = folder / key
    try:
        pixels, sums = (np.load(entry / name, mmap_mode="r") for name in (PIXELS, SUMS))
        whole = pixels.ndim == 4 and len(pixels) == len(sums) and isinstance(facts(entry)["bad"], list)
    except (OSError, ValueError, EOFError, KeyError, TypeError):  # absent, or damaged
        return None
    return entry if whole else None


def facts(entry: Path) -> dict[str, Any]:
    """Read what was written beside the pixels."""
    found: dict[str, Any] = json.loads((entry / FACTS).read_text(encoding="utf-8"))
    return found


def write_entry(folder: Path, key: str, fill: Callable[[Allocate], dict[str, Any]]) -> Path:
    """Write a new entry: `fill` decodes into the memory that it allocates and gives the facts to keep."""
    work, opened, target, lock = None, list[np.memmap[Any, np.dtype[np.uint8]]](), folder / key, None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear_dead(folder)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
        lock = _locked(work)
        path = work / PIXELS

        def allocate(shape: tuple[int, ...]) -> Pixels:
            path.unlink(missing_ok=True)
            opened.append(np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape))
            _reserve(path)
            return opened[-1]

        written = fill(allocate)
        np.save(work / SUMS, pixel_sums(opened[-1]))
        opened[-1].flush()
        (work / FACTS).write_text(json.dumps(written), encoding="utf-8")
        if target.is_dir() and find_entry(folder, key) is None:  # damaged: a disk that failed, or a cut of power
            shutil.rmtree(target)
        try:
            work.rename(target)
        except OSError:
            if find_entry(folder, key) is None:  # otherwise another process has written the same entry meanwhile
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
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder until the process ends or closes what this gives; None where another has it, or nothing locks."""
    opened = None
    try:
        import fcntl

        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        if opened is not None:
            os.close(opened)
        return None
    return opened


def _clear_dead(folder: Path) -> None:
    """Take away what writers left that were killed."""
    for left in folder.glob(f"{_WORK}*"):
        with suppress(FileNotFoundError):  # another process clears, too
            young = time.time() - left.stat().st_mtime < _YOUNG  # perhaps not locked yet
            if not young and (lock := _locked(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


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


class HeldPixels:
    """The pixels of one given part, in memory."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels  # [N, C, H, W]

    def unreadable(self, notes: list[str]) -> Sequence[int]:
        """List the rows that cannot be decoded and may be dropped."""
        return ()

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        """Read the pixels of these rows into memory."""  # [len(rows), C, H, W]
        found: Pixels = self.pixels[rows.numpy()]
        return found

    def mapped(self, notes: list[str]) -> Path | None:
        """Name a file that holds the pixels of all rows; None where they are in memory anyway."""
        return None

    def sums(self, rows: Tensor) -> Sums | None:
        """Give the sums of these rows' images where they are known already."""  # [len(rows), 2, C]
        return None

    def remarks(self) -> Sequence[str]:
        """Say what was done to images that were read."""
        return ()

    def identity(self) -> str:
        """Hash what determines the pixels."""
        found = hashlib.sha256(str(self.pixels.shape).encode())
        for start in range(0, len(self.pixels), 4096):
            found.update(self.pixels[start : start + 4096].tobytes())
        return found.hexdigest()


class EncodedPixels(HeldPixels):
    """Pixels that must be decoded: all rows once into the cache, or a few rows on the spot."""

    def __init__(
        self,
        count: int,
        pictures: Callable[[], Sequence[Picture]],  # of all rows
        version: Sequence[str],  # changes whenever a source file does
        content: Callable[[], Sequence[str]],  # what the pixels depend on, wherever the files lie
        options: ImageOptions,
    ) -> None:
        self.count, self.pictures, self.content, self.options = count, pictures, content, options
        height, width = options.size if isinstance(options.size, tuple) else (options.size, options.size)
        form = Form(height, width, options.crop, options.channels)
        self._decoder = Decoder(form, options.workers, options.unreadable == "drop", options.max_megapixels)
        self._said = [asdict(form), options.unreadable]
        limit = [options.max_megapixels] if self._decoder.drop else []  # says which images were left out
        where = options.cache_dir or os.environ.get("FAIRWEIGHT_CACHE")
        usual = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        self._folder = Path(where) if where else Path(usual).expanduser() / "fairweight"
        words = json.dumps([3, list(version), [*self._said, *limit]], sort_keys=True)  # 3: the layout of an entry
        self._key = hashlib.sha256(words.encode()).hexdigest()[:32]
        self._held: tuple[Pixels, list[int]] | None = None  # where there is no cache
        self._known: list[str] | None = None  # the content

    def unreadable(self, notes: list[str]) -> Sequence[int]:
        # Known only once all rows were decoded, so asked for only where such rows may be dropped.
        return self._whole(notes)[1] if self._decoder.drop else ()

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        if self._held is None and self._cached() is None and 2 * len(rows) < self.count:
            pictures = self.pictures()
            decoder = replace(self._decoder, drop=False)
            return decoder.all(_memory, [pictures[row] for row in rows.tolist()])[0]
        found: Pixels = np.ascontiguousarray(self._whole(notes)[0][rows.numpy()])
        return found

    def mapped(self, notes: list[str]) -> Path | None:
        # The cache's file, even where none was wanted: nothing else can hold what is larger than memory.
        return (find_entry(self._folder, self._key) or self._write(notes)) / PIXELS

    def sums(self, rows: Tensor) -> Sums | None:
        entry = find_entry(self._folder, self._key)
        return None if entry is None else np.load(entry / SUMS)[rows.numpy()]

    def remarks(self) -> Sequence[str]:
        entry = self._cached()
        count = len(self._decoder.deep) if entry is None else int(facts(entry).get("deep", 0))
        if count == 0:
            return ()
        return (f"{count:,} image{'s have' if count > 1 else ' has'} 16 bits per pixel: the upper 8 of them are read.",)

    def identity(self) -> str:
        return hashlib.sha256(json.dumps([self._content(), *self._said]).encode()).hexdigest()

    def _content(self) -> list[str]:
        """Take the content that was found when the pixels were kept; without them, read the sources for it."""
        if self._known is None:
            entry = self._cached()
            kept = None if entry is None else facts(entry).get("content")
            self._known = list(self.content() if kept is None else kept)
        return self._known

    def _cached(self) -> Path | None:
        return find_entry(self._folder, self._key) if self.options.cache else None

    def _whole(self, notes: list[str]) -> tuple[Pixels, list[int]]:
        """Give all pixels and the rows that cannot be decoded: from the cache, where it may and can be written."""
        if self._held is None and self.options.cache:
            try:
                entry = self._cached() or self._write(notes)
                return np.load(entry / PIXELS, mmap_mode="r"), list(facts(entry)["bad"])
            except NoSpace as error:
                notes.append(f"Warning: the decoded images were not kept for the next time: {error}")
        if self._held is None:
            self._held = self._decoder.all(_memory, self.pictures())
        return self._held

    def _write(self, notes: list[str]) -> Path:
        def fill(allocate: Allocate) -> dict[str, Any]:
            _, bad = self._decoder.all(allocate, self.pictures())
            counts.append(self.count - len(bad))
            return {"bad": bad, "content": self._content(), "deep": len(self._decoder.deep)}

        counts: list[int] = []
        entry = write_entry(self._folder, self._key, fill)
        place = str(entry.parent)
        with suppress(RuntimeError, ValueError):  # there is no home, or it lies elsewhere
            place = f"~/{entry.parent.relative_to(Path.home())}"  # nobody's name goes on a page
        notes.append(f"{counts[0]:,} images were decoded; the pixels are kept in {place} for the next time.")
        return entry


def _memory(shape: tuple[int, ...]) -> Pixels:
    return np.empty(shape, dtype=np.uint8)
