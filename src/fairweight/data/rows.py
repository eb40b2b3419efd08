"""Rows of a source: columns, which labels and groups are read from as text, and the pixels of images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairweight.data.texts import Texts, threshold
from fairweight.errors import UnreadableFile, printable

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.data.image.pixels import HeldPixels


Codes: TypeAlias = NDArray[np.int64]


@dataclass(eq=False)
class Rows:
    """The rows of one given part."""

    frame: pd.DataFrame
    pixels: HeldPixels | None = None  # None: the rows are those of a table
    identity: str | None = None  # what determines pixels and columns, where that is known without reading them
    files: Sequence[str] | None = None  # of images that are files, within their folder

    def __len__(self) -> int:
        return len(self.frame)

    def names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def texts(self, column: str) -> Texts:
        return as_texts(self.frame[column])

    def order(self, column: str) -> list[str]:
        """List the categories of a pandas category in their order; other columns have none."""
        import pandas as pd

        kind = self.frame[column].dtype if column in self.frame.columns else None
        return [_text(value) for value in kind.categories] if isinstance(kind, pd.CategoricalDtype) else []

    def digest(self) -> str:
        """Hash what determines these rows, wherever they were read from."""
        if self.identity is not None:
            return self.identity
        if self.pixels is not None:
            digest = hashlib.sha256(self.pixels.identity().encode())
            for name in sorted(self.names()):
                digest.update("\0".join([name, *(text or "" for text in self.texts(name))]).encode())
            return digest.hexdigest()
        from pandas.util import hash_pandas_object

        digest = hashlib.sha256("\0".join(self.names()).encode())
        for _, column in self.frame.items():
            try:
                hashes = hash_pandas_object(column, index=False)
            except TypeError:  # lists and the like, which have no hash
                hashes = hash_pandas_object(column.astype(str), index=False)
            digest.update(hashes.to_numpy().tobytes())
        return digest.hexdigest()


class ClassRows(Rows):
    """Images whose columns are class numbers, with names where they have them; made without pandas and a frame."""

    def __init__(
        self, pixels: HeldPixels, numbers: Mapping[str, NDArray[Any]], names: Mapping[str, Sequence[str]], where: str
    ) -> None:
        self.pixels, self.identity, self.files = pixels, None, None
        self.numbers, self.class_names = numbers, names
        for column in names.keys() & numbers.keys():
            if len(self) and (most := int(numbers[column].max())) >= len(names[column]):
                raise UnreadableFile(f"{where} holds the {column} {most}, and there are {len(names[column])} classes.")

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    def names(self) -> list[str]:
        return list(self.numbers)

    def texts(self, column: str) -> Texts:
        known = self.class_names.get(column)
        return [str(number) if known is None else known[number] for number in self.numbers[column].tolist()]

    def order(self, column: str) -> list[str]:
        return list(self.class_names.get(column, ()))


OUT = -2  # the code of a row that is left out


@dataclass(frozen=True)
class Encoded:
    """Names, and the code of each row of all given parts, one after the other; -1: not known."""

    names: tuple[str, ...]
    codes: Tensor  # [N] int64


def spans(parts: Mapping[str, Rows]) -> dict[str, slice]:
    """Find where each part's rows stand among those of all."""
    ends = np.cumsum([len(rows) for rows in parts.values()]).tolist()
    return {name: slice(end - len(rows), end) for (name, rows), end in zip(parts.items(), ends, strict=True)}


def read_column(rows: Rows, column: str) -> Texts | None:
    """Read a column, or the answers to a threshold such as age>=30; None where the rows do not have it."""
    if column in rows.names():
        return rows.texts(column)
    question = threshold(column)
    if question is not None and question.column in rows.names():
        return question.answer(rows.texts(question.column))
    return None


def source_column(names: Sequence[str], column: str) -> str:
    """Name the column that a label or group is read from: its own name, or the one inside a threshold."""
    question = threshold(column)
    return question.column if column not in names and question is not None else column


def to_codes(texts: Texts, names: Sequence[str]) -> Tensor:
    """Find the place of each text among the names, -1 for those that have none."""  # [N]
    places: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    return torch.tensor([places.get(text, -1) for text in texts], dtype=torch.long)


def as_texts(values: pd.Series[Any]) -> Texts:
    """Read each entry as stripped text, whole floats without their .0, None where there is none."""
    codes, texts = coded(values)
    return [None if code < 0 else texts[code] for code in codes.tolist()]


def factors(values: pd.Series[Any]) -> tuple[Codes, Any]:
    """Find each entry's place among the distinct ones (-1: missing), and those."""
    import pandas as pd

    try:
        codes, distinct = pd.factorize(values)
    except TypeError:  # lists and the like, which have no hash
        codes, distinct = pd.factorize(values.astype(str))
    return codes.astype("int64"), distinct


def coded(values: pd.Series[Any], spell: Callable[[str], str] = str) -> tuple[Codes, list[str]]:
    """Find each entry's place among the distinct texts of a column (-1: missing), and those, as `spell` writes them."""
    places, distinct = factors(values)
    codes: dict[str, int] = {}
    table = [codes.setdefault(spell(text), len(codes)) if (text := _text(value)) else -1 for value in distinct]
    return np.array([*table, -1], dtype=np.int64)[places], list(codes)  # the last entry is for code -1


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else repr(float(value))
    return printable(str(value).strip())
