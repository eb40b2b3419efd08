"""Label × group tables: column 0 is for a group that is not known, column g + 1 for group g."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from fairweight.constraints import one_of
from fairweight.errors import BadInput
from fairweight.types import Batch

By = Literal["label", "group", "cell"]
BY = one_of("label", "group", "cell")


def count_cells(labels: Tensor, groups: Tensor | None) -> Tensor:
    """How many samples each label and group has; [K, 1] where no groups are given."""  # [K, G + 1]
    labels = labels.cpu()
    if len(labels) == 0:
        return torch.zeros(0, 1, dtype=torch.int64)
    if int(labels.min()) < 0:
        raise BadInput(f"There is a label {int(labels.min())}; number the labels from 0.")
    column = torch.zeros_like(labels) if groups is None else groups.cpu().clamp_min(-1) + 1
    rows, columns = int(labels.max()) + 1, int(column.max()) + 1
    return torch.bincount(labels * columns + column, minlength=rows * columns).reshape(rows, columns)


def grown(table: Tensor, rows: int, columns: int) -> Tensor:
    """The table with at least so many rows and columns; new entries hold 0."""
    if table.shape[0] >= rows and table.shape[1] >= columns:
        return table
    larger = table.new_zeros(max(rows, table.shape[0]), max(columns, table.shape[1]))
    larger[: table.shape[0], : table.shape[1]] = table
    return larger


def look_up(table: Tensor, labels: Tensor, groups: Tensor | None) -> Tensor:
    """Look up each sample's entry; a table of one column holds for every group."""  # [B]
    if table.shape[1] == 1 or groups is None:
        return table[labels, 0]
    return table[labels, groups.clamp_min(-1) + 1]


def check_within(table: Tensor, batch: Batch, name: str) -> None:
    """Refuse labels and groups that the table has no entry for (reads the batch: a wait on a GPU)."""
    groups = batch.groups if table.shape[1] > 1 else None
    for what, codes, known in (("label", batch.labels, table.shape[0]), ("group", groups, table.shape[1] - 1)):
        if codes is not None and len(codes) and int(codes.max()) >= known:
            raise BadInput(
                f"The batch has {what} {int(codes.max())}, and {name} knows {what}s 0 to {known - 1}; call "
                f"begin(train) with a training set that holds every {what}."
            )


def stratum_table(counts: Tensor, by: By, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """The rule's weight for each label and group, from the sizes of the strata; [K, 1] by label.

    Where the group is not known the weight is the mean over the samples whose group is.
    """  # [K, G + 1]
    if by == "label":
        return rule(counts.sum(dim=1))[:, None]
    known = counts[:, 1:]  # [K, G]
    if by == "group":
        weights = rule(known.sum(dim=0))[None, :].expand_as(known)
    else:
        weights = rule(known.flatten()).reshape(known.shape)
    total = known.sum()
    mean = (known * weights).sum() / total if total > 0 else weights.new_ones(())
    return torch.cat([mean.expand(len(counts), 1), weights], dim=1)
