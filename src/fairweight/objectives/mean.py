"""Plain accuracy's surrogate."""

from __future__ import annotations

from torch import Tensor

from fairweight.objectives import Objective
from fairweight.types import Batch


class MeanLoss(Objective):
    """Mean loss (cross entropy); natural: at the shares that samples have outside a batch drawn evenly by cell.

    Examples:
        >>> import torch, fairweight as fw
        >>> losses, groups = torch.tensor([1.0, 3.0]), torch.tensor([0, 1])
        >>> float(fw.MeanLoss()(losses, groups)), float((fw.MeanLoss() + 0.5 * fw.MaxLossDiscrepancy())(losses, groups))
        (2.0, 3.0)
    """

    compares = False

    def __init__(self, natural: bool = True) -> None:
        self.natural = natural

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Plain mean; groups do not count."""  # []
        return losses.mean() if len(losses) else losses.new_zeros(())

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """Mean at natural shares where the batch carries them."""  # []
        if exemplar.shares is None or not self.natural or len(losses) == 0:
            return self(losses, exemplar.labels)
        shares = exemplar.shares.to(losses.dtype)
        return (shares * losses).sum() / shares.sum()
