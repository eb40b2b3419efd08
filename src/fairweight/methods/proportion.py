"""Inverse group size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairweight.constraints import constrained
from fairweight.methods._cells import By
from fairweight.methods._fixed_weights import StratumWeights


@constrained()
@dataclass(eq=False, repr=False, kw_only=True)
class Proportion(StratumWeights):
    """Weighs each sample by the inverse size of its group, class or cell: over the training set each counts alike.

    by: "group", "label" or "cell" (label and group). through: within a batch, weights through the loss are divided by
    their sum, so that strata which many batches miss get less than their share; "sampling" keeps the shares.
    """

    by: By = "group"

    paper = "inverse group frequency; 'Proportion' in Yan, Seto, Apostoloff 2022, arXiv 2202.01719"
    needs = frozenset({"train groups"})

    def rule(self, sizes: Tensor) -> Tensor:
        """N / (number of strata × size)."""  # [S]
        return proportion_weights(sizes)


def proportion_weights(sizes: Tensor) -> Tensor:
    """One weight per stratum, N / (S n_s); mean 1 over the samples, 0 for an empty stratum."""  # [S]
    sizes = sizes.double()
    present = sizes > 0
    return torch.where(present, sizes.sum() / (present.sum() * torch.where(present, sizes, 1.0)), 0.0)
