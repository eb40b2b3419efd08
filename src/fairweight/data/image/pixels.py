"""Where the pixels of images come from: memory, or encoded files that are decoded when they are asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fairweight.data.image import cache
from fairweight.data.image.decode import Allocate, Decoder, Form, Picture
from fairweight.data.image.normalize import Pixels, Sums
from fairweight.data.options import ImageOptions
from fairweight.errors import NoSpace


class HeldPixels:
    """The pixels of one given part, in memory."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels  # [N, C, H, W]

    def unreadable(self) -> Sequence[int]:
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
        self._folder, self._key = cache.cache_folder(options.cache_dir), cache.key_of(version, self._said)
        self._held: tuple[Pixels, list[int]] | None = None  # where there is no cache
        self._known: list[str] | None = None  # the content

    def unreadable(self) -> Sequence[int]:
        # Known only once all rows were decoded, so asked for only where such rows may be dropped.
        return () if self.options.unreadable == "refuse" else self._whole([])[1]

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        if self._held is None and self._cached() is None and 2 * len(rows) < self.count:
            pictures = self.pictures()
            decoder = replace(self._decoder, drop=False)
            return decoder.all(_memory, [pictures[row] for row in rows.tolist()])[0]
        found: Pixels = np.ascontiguousarray(self._whole(notes)[0][rows.numpy()])
        return found

    def mapped(self, notes: list[str]) -> Path | None:
        # The cache's file, even where none was wanted: nothing else can hold what is larger than memory.
        return (cache.find(self._folder, self._key) or self._write(notes)) / cache.PIXELS

    def sums(self, rows: Tensor) -> Sums | None:
        entry = cache.find(self._folder, self._key)
        return None if entry is None else np.load(entry / cache.SUMS)[rows.numpy()]

    def remarks(self) -> Sequence[str]:
        entry = self._cached()
        count = len(self._decoder.deep) if entry is None else int(cache.facts(entry)["deep"])
        if count == 0:
            return ()
        return (f"{count:,} image{'s have' if count > 1 else ' has'} 16 bits per pixel: the upper 8 of them are read.",)

    def identity(self) -> str:
        return hashlib.sha256(json.dumps([self._content(), *self._said]).encode()).hexdigest()

    def _content(self) -> list[str]:
        """Take the content that was found when the pixels were kept; without them, read the sources for it."""
        if self._known is None:
            entry = self._cached()
            kept = None if entry is None else cache.facts(entry).get("content")
            self._known = list(self.content() if kept is None else kept)
        return self._known

    def _cached(self) -> Path | None:
        return cache.find(self._folder, self._key) if self.options.cache else None

    def _whole(self, notes: list[str]) -> tuple[Pixels, list[int]]:
        """Give all pixels and the rows that cannot be decoded: from the cache, where it may and can be written."""
        if self._held is None and self.options.cache:
            try:
                entry = self._cached() or self._write(notes)
                return np.load(entry / cache.PIXELS, mmap_mode="r"), list(cache.facts(entry)["bad"])
            except NoSpace as error:
                notes.append(f"Warning: the decoded images were not kept for the next time: {error}")
        if self._held is None:
            self._held = self._decoder.all(_memory, self.pictures())
        return self._held

    def _write(self, notes: list[str]) -> Path:
        def fill(allocate: Allocate) -> dict[str, Any]:
            _, bad = self._decoder.all(allocate, self.pictures())
            return {"bad": bad, "content": self._content(), "deep": len(self._decoder.deep)}

        entry = cache.write(self._folder, self._key, fill)
        notes.append(f"{self.count:,} images were decoded; the pixels are kept in {entry} for the next time.")
        return entry


def _memory(shape: tuple[int, int, int, int]) -> Pixels:
    return np.empty(shape, dtype=np.uint8)
