"""Weights that make label and group independent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairweight.constraints import between, constrained
from fairweight.methods._cells import count_cells
from fairweight.methods._fixed_weights import KnownWeights, need_groups
from fairweight.types import Samples


@constrained(strength=between(0, 100))
@dataclass(eq=False, repr=False, kw_only=True)
class Reweighing(KnownWeights):
    """Weighs each cell as if label and group were independent: (n_label · n_group / (n · n_cell)) ^ strength.

    strength: 0 weighs all alike, 1 is the paper's, more overshoots. A sample whose group is not known counts 1.
    """

    strength: float = 1.0

    needs = frozenset({"train groups"})
    paper = "Kamiran, Calders 2012, Data preprocessing techniques for classification without discrimination"

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        need_groups(train, "Reweighing", "choose class-balanced to weigh the classes")
        counts = count_cells(train.labels, train.groups).double()
        self._table = independent(counts[:, 1:], self.strength).float().to(self.device)


def independent(counts: Tensor, strength: float = 1.0) -> Tensor:
    """Weights of cells from their sizes [K, G]; a first column of 1 for groups that are not known."""  # [K, G + 1]
    expected = counts.sum(dim=1, keepdim=True) * counts.sum(dim=0, keepdim=True) / counts.sum().clamp_min(1)
    weights = torch.where(counts > 0, expected / counts.clamp_min(1), torch.ones_like(counts)) ** strength
    return torch.cat([torch.ones(len(counts), 1, dtype=counts.dtype), weights], dim=1)
