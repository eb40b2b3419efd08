"""The way from a table to inputs, fixed on train rows; it travels with the model as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fairweight.data.meaning import Meaning, New, with_tuples
from fairweight.data.options import TableOptions
from fairweight.data.parts import Marked
from fairweight.data.rows import Rows
from fairweight.data.table.column import Column, fit_columns
from fairweight.data.table.leaks import ALMOST, NEARLY, find_leaks
from fairweight.data.table.read import check_frame, read_frame, table_files
from fairweight.data.table.values import TrainColumn, settle_ways
from fairweight.data.texts import listing
from fairweight.errors import MissingColumn, Sentence, option
from fairweight.types import Batch

if TYPE_CHECKING:
    import pandas as pd

MANY_COPIES = 0.05  # of the test rows


@dataclass(frozen=True)
class TablePreprocessing:
    """Fixed on train rows: fills, means, deviations and categories; applied to any frame with the same columns."""

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    meaning: Meaning
    options: TableOptions = field(default_factory=TableOptions)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features())

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (len(self.feature_names),)

    def transform(self, frame: pd.DataFrame, notes: list[str], where: str | Mapping[str, Any] = "the table") -> Tensor:
        """Make the inputs of these rows; where: what notes call them, or positions by such names."""  # [N, features]
        parts = {f"rows of {where}": slice(None)} if isinstance(where, str) else where
        if lost := [column.name for column in self.columns if column.name not in frame.columns]:
            many = len(lost) > 1
            raise MissingColumn(
                f"the {next(iter(parts))} lack the column{'s' * many} {listing(lost)} that the model was trained on; "
                f"add {'them' if many else 'it'}, empty if the values are not known."
            )
        blocks = [column.apply(frame[column.name], notes, parts).astype(np.float32) for column in self.columns]
        return torch.from_numpy(np.concatenate(blocks, axis=1))

    def read(self, source: str | Path | pd.DataFrame) -> New:
        """Read a new file or frame, with labels and groups where it has them."""
        notes: list[str] = []
        where = "the table"
        if isinstance(source, str | Path):
            where = Path(source).name
            frame = read_frame(table_files(str(source)), self.options, notes)
        else:
            frame = check_frame(source, where, notes)
        rows = Rows(frame)
        inputs = self.transform(frame, notes, where)
        used = {column.name for column in self.columns}
        if extra := [name for name in rows.names() if name not in used | {self.meaning.label, *self.meaning.group}]:
            notes.append(f"Columns that the model does not use: {listing(extra)}.")
        labels, groups = self.meaning.labels(rows), self.meaning.groups(rows, notes)
        return New(inputs, labels, groups, tuple(notes), rows=rows)

    def input_module(self) -> nn.Module:
        """Make what a model puts before its first layer: nothing, as the inputs are ready."""
        return nn.Identity()

    def to_dict(self) -> dict[str, Any]:
        text = {name: getattr(self.options, name) for name in ("delimiter", "encoding")}
        columns = [asdict(column) for column in self.columns]
        return {"kind": self.kind, "columns": columns, "meaning": asdict(self.meaning), **text}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TablePreprocessing:
        columns = tuple(Column(**with_tuples(column)) for column in values["columns"])
        options = TableOptions(delimiter=values["delimiter"], encoding=values["encoding"])
        return cls(columns, Meaning(**with_tuples(values["meaning"])), options)


def table_samples(
    rows: Mapping[str, Rows],
    parts: Mapping[str, Marked],
    meaning: Meaning,
    options: TableOptions,
    exclude: Sequence[str],
    notes: list[str],
) -> tuple[dict[str, Batch], TablePreprocessing]:
    """Make the samples of every part, with what was fixed on train."""
    frames = {name: rows[parts[name].origin].frame.iloc[parts[name].rows.numpy()] for name in ("train", "test")}
    measured = {str(name): TrainColumn(frames["train"][name], name in options.numeric) for name in frames["train"]}
    settle_ways(measured, options, exclude, frames["train"].attrs.get("delimiter"))
    excluded = [*exclude, *_note_leaks(measured, parts["train"], meaning, options, exclude, notes)]
    preprocessing = TablePreprocessing(fit_columns(measured, options, excluded, notes), meaning, options)
    count, width = len(preprocessing.columns), len(preprocessing.feature_names)
    notes.append(f"Inputs: {count} column{'s' * (count > 1)} became {width} number{'s' * (width > 1)} per row.")
    notes += _note_copies(frames["train"], frames["test"])
    samples: dict[str, Batch] = {}
    for origin in dict.fromkeys(part.origin for part in parts.values()):
        siblings = {name: part for name, part in parts.items() if part.origin == origin}
        # Notes on train were made when its columns were fitted.
        noted = {f"{name} rows": part.rows.numpy() for name, part in siblings.items() if name != "train"}
        inputs = preprocessing.transform(rows[origin].frame, notes, noted)
        samples |= {
            name: Batch(inputs[part.rows], part.labels, part.groups, shares=part.shares)
            for name, part in siblings.items()
        }
    return samples, preprocessing


def _note_leaks(
    columns: Mapping[str, TrainColumn], train: Marked, meaning: Meaning, options: TableOptions, exclude: Sequence[str],
    notes: list[str],
) -> list[str]:  # fmt: skip
    """Warn of columns that give the label or the group away; returns those that are dropped for it."""
    suspects = find_leaks(columns, train.labels, meaning.label_names, [*exclude, *options.drop], NEARLY)
    advice = f"leave them out with {option('table.drop')} unless they are known when you predict"
    if leaks := {name: leak for name, leak in suspects.items() if leak.gained >= ALMOST}:
        named = "; ".join(f"{name!r} ({leak.how})" for name, leak in leaks.items())
        outcome = "they were dropped" if options.drop_leaks else advice
        notes.append(Sentence(f"Warning: columns that give the label {meaning.label!r} away: {named}; {outcome}."))
    dropped = list(leaks) if options.drop_leaks else []
    if nearly := ", ".join(repr(name) for name in suspects if name not in leaks):
        named = f"single columns that all but give the label {meaning.label!r} away: {nearly}"
        notes.append(Sentence(f"Warning: {named}; {advice}."))
    if meaning.group and not options.group_in_inputs:
        group = ",".join(meaning.group)
        if train.groups is not None:
            copies = find_leaks(columns, train.groups, meaning.group_names, [*exclude, *dropped, *options.drop])
            named = ", ".join(repr(name) for name in copies)
            notes += [f"Warning: the group {group!r} can be read off {named}, which stays an input."] if copies else []
        notes.append(f"The group {group!r} is kept out of the inputs.")
    return dropped


def _note_copies(train: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """Count the test rows that equal a row of train in every column: a model may know them by heart."""
    from pandas.util import hash_pandas_object

    columns = [name for name in train.columns if name in test.columns]
    try:
        train_rows, test_rows = (hash_pandas_object(frame[columns], index=False) for frame in (train, test))
    except TypeError:  # lists and the like, which have no hash
        return []
    count = int(test_rows.isin(set(train_rows)).sum())
    note = f"{count:,} of {len(test):,} test rows are equal to a row of train in every column"
    rows = train[columns][~train_rows.duplicated()]
    # Where a column has about a value per row, equal rows are copies, not different samples that look alike.
    if count >= max(1, MANY_COPIES * len(test)) and max(rows[name].nunique() for name in rows) >= len(rows) / 2:
        advice = f"keep one of each, or give test rows of their own with {option('split.test')}"
        return [Sentence(f"Warning: {note}, so numbers on them look better than on new rows; {advice}.")]
    return [f"{note}."] if count else []
