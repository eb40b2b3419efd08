"""What a model's classes and groups are called, and how new rows are read under those names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairweight.data.groups import OTHER, crossed
from fairweight.data.rows import Rows, read_column, to_codes
from fairweight.data.texts import Texts, canonical, listing


@dataclass(frozen=True)
class New:
    """Samples to predict for; labels and groups where the source has them, -1 where a row's is not known."""

    inputs: Tensor
    labels: Tensor | None  # [N]
    groups: Tensor | None  # [N]
    notes: tuple[str, ...]
    files: Texts | None = None  # of images that are files
    rows: Rows | None = None  # that they were read from

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Meaning:
    """The names of classes and groups, and the columns that they were read from."""

    label: str
    label_names: tuple[str, ...]
    group: tuple[str, ...] = ()
    group_names: tuple[str, ...] = ()

    def labels(self, rows: Rows) -> Tensor | None:
        """Encode each row's class, where the rows have the label column."""  # [N]
        texts = read_column(rows, self.label)
        if texts is None:
            return None
        plain = [text if text is None or text in self.label_names else canonical(text) for text in texts]
        return to_codes(plain, self.label_names)

    def groups(self, rows: Rows, notes: list[str] | None = None) -> Tensor | None:
        """Encode each row's group, where the rows have the group columns; notes: gains what the model does not know."""
        columns = [texts for column in self.group if (texts := read_column(rows, column)) is not None]
        if not columns or len(columns) < len(self.group):
            return None
        crossed_texts, known = crossed(columns), set(self.group_names)
        canonical_texts = crossed([[text if text is None else canonical(text) for text in texts] for texts in columns])
        names = [text if text in known else spare for text, spare in zip(crossed_texts, canonical_texts, strict=True)]
        if OTHER in known:
            names = [text if text is None or text in known else OTHER for text in names]
        codes = to_codes(names, self.group_names)  # [N]
        if notes is not None:
            unknown = Counter(crossed_texts[row] for row in (codes < 0).nonzero().flatten().tolist())
            notes += self._unknown_notes(unknown, len(codes))
        return codes

    def _unknown_notes(self, unknown: Counter[str | None], rows: int) -> list[str]:
        title, missing, notes = ",".join(self.group), unknown.pop(None, 0), []
        if count := unknown.total():
            examples = listing(str(text) for text, _ in unknown.most_common())
            notes.append(
                f"Warning: {count:,} row{'s have' if count > 1 else ' has'} a group {title!r} that the model does not "
                f"know ({examples}; it knows {listing(self.group_names)}): predicted, and counted in no group."
            )
        if missing:
            notes.append(f"{missing:,} of {rows:,} rows have no group {title!r}: counted in no group.")
        return notes


def with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make tuples of the lists that JSON has in their place."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
