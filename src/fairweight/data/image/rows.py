"""Images as rows: attribute columns as text, and pixels that are decoded when they are asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from fairweight.data._texts import Texts
from fairweight.data.image import cache
from fairweight.data.image.decode import Form, Picture, decode_all
from fairweight.data.options import ImageOptions
from fairweight.errors import NoSpace

if TYPE_CHECKING:
    import numpy as np

    from fairweight.data.normalize import Sums

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class Store(Protocol):
    """Where the pixels of one given part come from."""

    def __len__(self) -> int: ...

    def unreadable(self) -> Sequence[int]:
        """Rows that cannot be decoded and may be dropped."""
        ...

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        """The pixels of these rows, in memory."""  # [len(rows), C, H, W]
        ...

    def mapped(self, notes: list[str]) -> Path | None:
        """A file that holds the pixels of all rows; None where they are in memory anyway."""
        ...

    def sums(self, rows: Tensor) -> Sums | None:
        """The sums of these rows' images where they are known already."""  # [len(rows), 2, C]
        ...

    def remarks(self) -> Sequence[str]:
        """What was done to images that were read, as sentences."""
        ...

    def identity(self) -> str:
        """What determines the pixels, for a fingerprint."""
        ...


@dataclass(frozen=True)
class ImageRows:
    """The rows of one given part."""

    store: Store
    columns: Mapping[str, Texts]
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of classes that have one
    identity: str | None = None  # what determines pixels and columns; None: their own values

    def __len__(self) -> int:
        return len(self.store)

    def names(self) -> Sequence[str]:
        """The attribute columns."""
        return list(self.columns)

    def texts(self, column: str) -> Texts:
        """One attribute column."""
        return self.columns[column]

    def order(self, column: str) -> Sequence[str]:
        """The published order of the classes."""
        return self.orders.get(column, ())


@dataclass(frozen=True)
class ArrayStore:
    """Pixels that are in memory already."""

    pixels: Pixels  # [N, C, H, W]

    def __len__(self) -> int:
        return len(self.pixels)

    def unreadable(self) -> Sequence[int]:
        """None."""
        return ()

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        """The pixels of these rows."""  # [len(rows), C, H, W]
        found: Pixels = self.pixels[rows.numpy()]
        return found

    def mapped(self, notes: list[str]) -> Path | None:
        """None: they are in memory."""
        return None

    def sums(self, rows: Tensor) -> Sums | None:
        """Not known."""
        return None

    def remarks(self) -> Sequence[str]:
        """Nothing was done."""
        return ()

    def identity(self) -> str:
        """The sha256 of the pixels."""
        return cache.digest(self.pixels)


@dataclass
class EncodedStore:
    """Pixels that must be decoded: all rows once into the cache, or a few rows on the spot."""

    count: int
    pictures: Callable[[], Sequence[Picture]]  # of all rows
    version: Sequence[str]  # changes whenever a source file does
    content: Callable[[], Sequence[str]]  # what the pixels depend on, wherever the files lie
    options: ImageOptions
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        self.form = Form.of(self.options.size, self.options.crop, self.options.channels)
        self._folder = cache.cache_folder(self.options.cache_dir)
        self._key = cache.key_of(self.version, [asdict(self.form), self.options.unreadable])
        self._held: tuple[Pixels, list[int]] | None = None
        self._said: list[str] | None = None
        self._deep: set[str] = set()  # names of images with 16 bits per pixel, of those that were decoded here

    def __len__(self) -> int:
        return self.count

    def unreadable(self) -> Sequence[int]:
        """Known only once all rows were decoded, so asked for only where such rows may be dropped."""
        if self.options.unreadable == "refuse":
            return ()
        entry = self._entry([])
        return self._hold()[1] if entry is None else list(entry.facts()["bad"])

    def read(self, rows: Tensor, notes: list[str]) -> Pixels:
        """The pixels of these rows; a small part is decoded on the spot, otherwise all rows are, once."""
        import numpy as np

        new = self._held is None and not (self.options.cache and cache.find(self._folder, self._key))
        if new and 2 * len(rows) < self.count:
            pictures = self.pictures()
            few = [pictures[row] for row in rows.tolist()]
            return decode_all(_memory, few, self.form, self.options.workers, deep=self._deep)[0]
        entry = self._entry(notes)
        whole = self._hold()[0] if entry is None else np.load(entry.pixels, mmap_mode="r")
        found: Pixels = np.ascontiguousarray(whole[rows.numpy()])
        return found

    def mapped(self, notes: list[str]) -> Path | None:
        """The cache's file; there is no other way to hold what is larger than memory."""
        entry = cache.find(self._folder, self._key) or self._write(notes)
        return entry.pixels

    def sums(self, rows: Tensor) -> Sums | None:
        """Those that were kept with the pixels."""
        import numpy as np

        entry = cache.find(self._folder, self._key)
        if entry is None:
            return None
        found: Sums = np.load(entry.sums)[rows.numpy()]
        return found

    def remarks(self) -> Sequence[str]:
        """How many images were brought from 16 bits to 8."""
        entry = cache.find(self._folder, self._key) if self.options.cache else None
        count = len(self._deep) if entry is None else int(entry.facts()["deep"])
        if count == 0:
            return ()
        return (f"{count:,} image{'s have' if count > 1 else ' has'} 16 bits per pixel: the upper 8 of them are read.",)

    def identity(self) -> str:
        """Of the sources and the form."""
        words = json.dumps([self._content(), asdict(self.form), self.options.unreadable])
        return hashlib.sha256(words.encode()).hexdigest()

    def _content(self) -> list[str]:
        """As it was found when the pixels were kept; without them, the sources are read for it."""
        if self._said is None:
            entry = cache.find(self._folder, self._key) if self.options.cache else None
            kept = None if entry is None else entry.facts().get("content")
            self._said = list(self.content()) if kept is None else list(kept)
        return self._said

    def _entry(self, notes: list[str]) -> cache.Entry | None:
        """The cache's entry, written now if need be; None where it may not or cannot be."""
        if not self.options.cache or self._held is not None:
            return None
        found = cache.find(self._folder, self._key)
        if found is not None:
            return found
        try:
            return self._write(notes)
        except NoSpace as error:
            notes.append(f"Warning: the decoded images were not kept for the next time: {error}")
            return None

    def _write(self, notes: list[str]) -> cache.Entry:
        entry = cache.write(self._folder, self._key, self._fill)
        notes.append(f"{self.count:,} images were decoded; the pixels are kept in {entry.path} for the next time.")
        return entry

    def _fill(self, allocate: Callable[[tuple[int, int, int, int]], Pixels]) -> dict[str, Any]:
        drop = self.options.unreadable == "drop"
        _, form, bad = decode_all(allocate, self.pictures(), self.form, self.options.workers, drop, self._deep)
        return {"bad": bad, "form": asdict(form), "content": self._content(), "deep": len(self._deep)}

    def _hold(self) -> tuple[Pixels, list[int]]:
        if self._held is None:
            drop = self.options.unreadable == "drop"
            pixels, _, bad = decode_all(_memory, self.pictures(), self.form, self.options.workers, drop, self._deep)
            self._held = (pixels, bad)
        return self._held


def _memory(shape: tuple[int, int, int, int]) -> Pixels:
    import numpy as np

    return np.empty(shape, dtype=np.uint8)
