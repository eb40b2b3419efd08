"""What a reader has found before rows are split: parts, and what suits the source where the user said nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fairweight.data.image.rows import ImageRows
from fairweight.data.options import GroupOptions, ImageOptions, Options
from fairweight.data.split import Exemplar, Split
from fairweight.data.table.rows import FrameRows


@dataclass(frozen=True)
class Request:
    """What a user asked of a source, with the folders that it may lie in."""

    label: str | None
    group: tuple[str, ...] | None  # None: the source's own; empty: none
    folders: tuple[Path, ...]  # to look in, first to last
    download: bool
    seed: int
    options: Options


@dataclass(frozen=True)
class Found:
    """A source's given parts and its own defaults."""

    name: str
    parts: dict[str, FrameRows] | dict[str, ImageRows]
    label: str
    group: tuple[str, ...] = ()
    groups: GroupOptions = field(default_factory=GroupOptions)
    split: Split = field(default_factory=Split)
    exemplar: Exemplar = field(default_factory=Exemplar)
    image: ImageOptions = field(default_factory=ImageOptions)  # those that the images were read with
    exclude: tuple[str, ...] = ()  # columns that are not inputs
    notes: tuple[str, ...] = ()
    content: dict[str, Any] = field(default_factory=dict)  # what determines the parts, for a fingerprint

    @property
    def kind(self) -> str:
        """Whether its samples are rows of a table or images."""
        return "table" if isinstance(self.parts["train"], FrameRows) else "image"


class NamedSet(Protocol):
    """A named data set: one file in data/sets, one public class."""

    label: str  # its usual label
    group: tuple[str, ...]  # its usual groups; empty: the label stands for the group
    needs: Sequence[str]  # the files that it is read from, for people

    def find(self, request: Request) -> Found:
        """Its parts, from the folders of the request."""
        ...


def digest(rows: FrameRows | ImageRows) -> str:
    """What determines these rows, wherever they were read from."""
    if isinstance(rows, ImageRows) and rows.identity is not None:
        return rows.identity
    if isinstance(rows, ImageRows):
        found = hashlib.sha256(rows.store.identity().encode())
        for name, texts in sorted(rows.columns.items()):
            found.update("\0".join([name, *(text or "" for text in texts)]).encode())
        return found.hexdigest()
    from pandas.util import hash_pandas_object

    found = hashlib.sha256("\0".join(map(str, rows.frame.columns)).encode())
    for name in rows.frame.columns:
        column = rows.frame[name]
        try:
            hashes = hash_pandas_object(column, index=False)
        except TypeError:  # lists and the like, which have no hash
            hashes = hash_pandas_object(column.astype(str), index=False)
        found.update(hashes.to_numpy().tobytes())
    return found.hexdigest()
