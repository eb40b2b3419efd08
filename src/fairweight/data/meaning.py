"""What a model's classes and groups are called, and how new rows are read under those names."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
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

    def groups(self, rows: Rows) -> Tensor | None:
        """Encode each row's group, where the rows have the group columns."""  # [N]
        found = [texts for column in self.group if (texts := read_column(rows, column)) is not None]
        if not found or len(found) < len(self.group):
            return None
        plain = crossed([[text if text is None else canonical(text) for text in texts] for texts in found])
        known = set(self.group_names)
        best = [text if text in known else spare for text, spare in zip(crossed(found), plain, strict=True)]
        if OTHER in known:
            best = [text if text is None or text in known else OTHER for text in best]
        return to_codes(best, self.group_names)

    def unknown_groups(self, rows: Rows) -> list[str]:
        """Say which group values the model was not trained on, and how many rows have each kind of none."""
        codes = self.groups(rows)
        if codes is None:
            return []
        found = [texts for column in self.group if (texts := read_column(rows, column)) is not None]
        lost = [text for text, code in zip(crossed(found), codes.tolist(), strict=True) if code < 0]
        strange = Counter(text for text in lost if text is not None)
        title = ",".join(self.group)
        notes = []
        if strange:
            most = [text for text, _ in strange.most_common()]
            count = strange.total()
            rows_have = f"{count:,} row{'s have' if count > 1 else ' has'}"
            notes.append(
                f"Warning: {rows_have} a group {title!r} that the model does not know ({listing(most)}; it knows "
                f"{listing(self.group_names)}): predicted, and counted in no group."
            )
        if missing := len(lost) - strange.total():
            notes.append(f"{missing:,} of {len(codes):,} rows have no group {title!r}: counted in no group.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Meaning:
        return cls(values["label"], tuple(values["label_names"]), tuple(values["group"]), tuple(values["group_names"]))
