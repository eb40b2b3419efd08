"""What the readers of every kind of source hand on: rows with text columns, and codes for labels and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairweight.data._texts import Texts, threshold


class Rows(Protocol):
    """The rows of one given part: how many, and their columns as text."""

    def __len__(self) -> int: ...

    def names(self) -> Sequence[str]:
        """The columns that labels and groups may be read from."""
        ...

    def texts(self, column: str) -> Texts:
        """One column."""
        ...

    def order(self, column: str) -> Sequence[str]:
        """The order that its values have by themselves; empty where they have none."""
        ...


@dataclass(frozen=True)
class Encoded:
    """Names, and for each given part one code per row (-1: not known) and whether the row stays."""

    names: tuple[str, ...]
    codes: dict[str, Tensor]  # [N] int64 each
    keep: dict[str, Tensor]  # [N] bool each
    notes: tuple[str, ...] = ()


def read_column(rows: Rows, column: str) -> Texts | None:
    """A column, or the answers to a threshold such as age>=30; None where the rows do not have it."""
    if column in rows.names():
        return rows.texts(column)
    question = threshold(column)
    if question is not None and question.column in rows.names():
        return question.answer(rows.texts(question.column))
    return None


def source_column(names: Sequence[str], column: str) -> str:
    """The column that a label or group is read from: its own name, or the one inside a threshold."""
    question = threshold(column)
    return question.column if column not in names and question is not None else column


def to_codes(texts: Texts, names: Sequence[str]) -> Tensor:
    """The place of each text among the names, -1 for those that have none."""  # [N]
    place: Mapping[str | None, int] = {name: code for code, name in enumerate(names)}
    return torch.tensor([place.get(text, -1) for text in texts], dtype=torch.int64)


def all_kept(parts: Mapping[str, Texts]) -> dict[str, Tensor]:
    """Masks that keep every row."""
    return {name: torch.ones(len(texts), dtype=torch.bool) for name, texts in parts.items()}
