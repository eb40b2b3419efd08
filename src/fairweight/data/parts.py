"""The parts of a data set: what they may be called, and the rows of one with their labels and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

# How people spell the parts, in a column or as a folder's name.
PART_NAMES = {
    "train": "train", "training": "train", "tr": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation", "eval": "validation",
    "test": "test", "testing": "test", "te": "test", "holdout": "test",
    "exemplar": "exemplar", "exemplars": "exemplar", "meta": "exemplar",
}  # fmt: skip


Names: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # of labels and groups


@dataclass(frozen=True)
class Marked:
    """The rows of a part, with their labels and groups, and the given part that they come from."""

    rows: Tensor  # [N] positions in the given part
    labels: Tensor  # [N]
    groups: Tensor | None  # [N], -1 where not known
    shares: Tensor | None = None  # [N] of exemplars: weights such that cells have their natural shares, mean 1
    origin: str = "train"  # the given part

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> Marked:
        """Select the rows at these positions, or where the mask is true."""
        groups, shares = (None if column is None else column[index] for column in (self.groups, self.shares))
        return Marked(self.rows[index], self.labels[index], groups, shares, self.origin)

    def without(self, index: Tensor) -> Marked:
        keep = torch.ones(len(self), dtype=torch.bool)
        keep[index] = False
        return self.take(keep)

    def joined(self, other: Marked) -> Marked:
        """Add other rows of the same given part; in the order of their numbers."""
        groups = None if self.groups is None or other.groups is None else torch.cat([self.groups, other.groups])
        rows, labels = torch.cat([self.rows, other.rows]), torch.cat([self.labels, other.labels])
        return Marked(rows, labels, groups, origin=self.origin).take(rows.argsort())

    def known(self) -> Tensor:
        """Mask the rows whose group is known; all are where the label stands for the group."""  # [N]
        return torch.ones(len(self), dtype=torch.bool) if self.groups is None else self.groups >= 0

    def strata(self) -> Tensor:
        """Number the cells; rows whose group is not known form cells of their own."""  # [N]
        return self.labels if self.groups is None else self.labels * self._width() + self.groups + 1

    def cells(self, label_names: Sequence[str], group_names: Sequence[str]) -> dict[str, int]:
        """Count each cell's rows, by its name; those whose group is not known are not counted."""
        counted = {}
        values, counts = torch.unique(self.strata()[self.known()], return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            label, group = (value, None) if self.groups is None else divmod(value, self._width())
            in_group = "" if group is None else f", group={group_names[group - 1]}"
            counted[f"label={label_names[label]}{in_group}"] = count
        return counted

    def _width(self) -> int:
        return 1 if self.groups is None or len(self) == 0 else int(self.groups.max()) + 2
