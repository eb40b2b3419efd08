"""What a model's classes and groups are called, and how new rows are read under those names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairweight.data._rows import Rows, read_column, to_codes
from fairweight.data._texts import Texts, canonical
from fairweight.data.groups import JOIN, OTHER


@dataclass(frozen=True)
class New:
    """Samples to predict for; labels and groups where the source has them, -1 where a row's is not known."""

    inputs: Tensor
    labels: Tensor | None  # [N]
    groups: Tensor | None  # [N]
    notes: tuple[str, ...]
    files: Texts | None = None  # of images that are files

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
        """Each row's class, where the rows have the label column."""  # [N]
        texts = read_column(rows, self.label)
        return None if texts is None else to_codes(_spelled(texts, self.label_names), self.label_names)

    def groups(self, rows: Rows) -> Tensor | None:
        """Each row's group, where the rows have the group columns."""  # [N]
        found = [texts for column in self.group if (texts := read_column(rows, column)) is not None]
        if not found or len(found) < len(self.group):
            return None
        crossed = _crossed(found)
        plain = _crossed([[text if text is None else canonical(text) for text in texts] for texts in found])
        best = [text if text in self.group_names else spare for text, spare in zip(crossed, plain, strict=True)]
        if OTHER in self.group_names:
            best = [text if text is None or text in self.group_names else OTHER for text in best]
        return to_codes(best, self.group_names)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {
            "label": self.label, "label_names": list(self.label_names),
            "group": list(self.group), "group_names": list(self.group_names),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Meaning:
        """The meaning that to_dict described."""
        return cls(values["label"], tuple(values["label_names"]), tuple(values["group"]), tuple(values["group_names"]))


def _crossed(columns: list[Texts]) -> Texts:
    return [None if None in row else JOIN.join(str(text) for text in row) for row in zip(*columns, strict=True)]


def _spelled(texts: Texts, names: tuple[str, ...]) -> Texts:
    """Numbers in the spelling that the names have."""
    return [text if text is None or text in names else canonical(text) for text in texts]
