"""Inverse group size."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairweight.constraints import constrained, whole
from fairweight.metagradient.passes import classification_loss
from fairweight.methods._cells import BY, By
from fairweight.methods._fixed_weights import THROUGH, StratumWeights, Through
from fairweight.types import Loss


@constrained(num_samples=whole(1), by=BY, through=THROUGH)
class Proportion(StratumWeights):
    """Weighs each sample by the inverse size of its group, class or cell: over the training set each counts alike.

    by: "group", "label" or "cell" (label and group). through: within a batch, weights through the loss are divided by
    their sum, so that strata which many batches miss get less than their share; "sampling" keeps the shares.
    """

    paper = "inverse group frequency; 'Proportion' in Yan, Seto, Apostoloff 2022, arXiv 2202.01719"
    needs = frozenset({"train groups"})

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        by: By = "group",
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, by=by, through=through, loss=loss)

    def rule(self, sizes: Tensor) -> Tensor:
        """N / (number of strata × size)."""  # [S]
        return proportion_weights(sizes)


def proportion_weights(sizes: Tensor) -> Tensor:
    """One weight per stratum, N / (S n_s); mean 1 over the samples, 0 for an empty stratum."""  # [S]
    sizes = sizes.double()
    present = sizes > 0
    return torch.where(present, sizes.sum() / (present.sum() * torch.where(present, sizes, 1.0)), 0.0)
