"""The way from a table to inputs, fixed on train rows; it travels with the model as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from fairweight.data._meaning import Meaning, New
from fairweight.data._texts import listing
from fairweight.data.options import TableOptions
from fairweight.data.table.column import Column
from fairweight.data.table.fit import fit_columns
from fairweight.data.table.read import check_frame, read_frame, table_files
from fairweight.data.table.rows import FrameRows
from fairweight.data.table.values import Seen
from fairweight.errors import MissingColumn

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TablePreprocessing:
    """Fixed on train rows: fills, means, deviations and categories; applied to any frame with the same columns."""

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    meaning: Meaning
    options: TableOptions = field(default_factory=TableOptions)

    @classmethod
    def fit(
        cls,
        train: Mapping[str, Seen],
        meaning: Meaning,
        options: TableOptions,
        exclude: Sequence[str],
        notes: list[str],
    ) -> TablePreprocessing:
        """Learn from train rows what becomes of each column."""
        return cls(fit_columns(train, options, exclude, notes), meaning, options)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(name for column in self.columns for name in column.features())

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (len(self.feature_names),)

    def transform(self, frame: pd.DataFrame, notes: list[str], where: str = "the table") -> Tensor:
        """The inputs of these rows."""  # [N, features] float32
        import numpy as np

        if lost := [column.name for column in self.columns if column.name not in frame.columns]:
            many = len(lost) > 1
            raise MissingColumn(
                f"{where} lack{'s' * (not where.endswith('rows'))} the column{'s' * many} {listing(lost)} that the "
                f"model was trained on; add {'them' if many else 'it'}, empty if the values are not known."
            )
        blocks = [column.apply(frame[column.name], notes, where) for column in self.columns]
        return torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))

    def read(self, source: str | Path | pd.DataFrame) -> New:
        """The inputs of a new file or frame, with labels and groups where it has them."""
        notes: list[str] = []
        where = "the table"
        if isinstance(source, str | Path):
            where = Path(source).name
            frame, notes = read_frame(table_files(str(source)), self.options)
        else:
            frame = check_frame(source, where, notes)
        rows = FrameRows(frame)
        inputs = self.transform(frame, notes, where)
        used = {column.name for column in self.columns}
        if extra := [name for name in rows.names() if name not in used | {self.meaning.label, *self.meaning.group}]:
            notes.append(f"Columns that the model does not use: {listing(extra)}.")
        return New(inputs, self.meaning.labels(rows), self.meaning.groups(rows), tuple(notes))

    def input_module(self) -> nn.Module:
        """What a model puts before its first layer: nothing, as the inputs are ready."""
        return nn.Identity()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "columns": [column.to_dict() for column in self.columns],
            "meaning": self.meaning.to_dict(),
            "delimiter": self.options.delimiter,
            "encoding": self.options.encoding,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TablePreprocessing:
        """The preprocessing that to_dict described."""
        return cls(
            tuple(Column.from_dict(column) for column in values["columns"]),
            Meaning.from_dict(values["meaning"]),
            TableOptions(delimiter=values["delimiter"], encoding=values["encoding"]),
        )
