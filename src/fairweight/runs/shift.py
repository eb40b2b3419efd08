"""Decisions by group or class: a number added to each class's logit, by the group of the sample or alike for all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

ByGroup = Sequence[Sequence[float]]  # [G, K]; one row alone is for everybody


def shifted(logits: Tensor, groups: Tensor | None, shift: ByGroup | None) -> Tensor:
    """Logits with their group's numbers added; a group that is not known has the mean of all."""  # [N, K]
    if shift is None or not len(shift) or (groups is None and len(shift) > 1):
        return logits
    if logits.shape[1] == 1 < len(shift[0]):  # one logit is that of the positive class
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
    if len(shift) == 1:
        return logits + torch.tensor(list(shift[0]), dtype=logits.dtype, device=logits.device)
    assert groups is not None
    table = torch.tensor([list(row) for row in shift], dtype=logits.dtype)
    table = torch.cat([table, table.mean(dim=0, keepdim=True)])  # -1 is the last
    groups = torch.where(groups < len(table) - 1, groups, -1)
    return logits + table[groups.cpu()].to(logits.device)
