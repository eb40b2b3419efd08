"""Class-balanced weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fairweight.constraints import between, constrained, whole
from fairweight.metagradient.passes import classification_loss
from fairweight.methods._cells import BY, By
from fairweight.methods._fixed_weights import THROUGH, StratumWeights, Through
from fairweight.types import Loss


@constrained(num_samples=whole(1), beta=between(0, 1), by=BY, through=THROUGH)
class ClassBalanced(StratumWeights):
    """Weighs each class by the inverse of its effective number of samples, (1 − β^n) / (1 − β).

    beta: 0 weighs all alike, 1 by inverse frequency. by: "label", or the same for "group" or "cell".
    """

    paper = "Cui, Jia, Lin, Song, Belongie 2019, arXiv 1901.05555"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        beta: float = 0.9999,
        by: By = "label",
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, by=by, through=through, loss=loss)
        self.beta = beta

    def rule(self, sizes: Tensor) -> Tensor:
        """Inverse effective numbers."""  # [S]
        return effective_number_weights(sizes, self.beta)


def effective_number_weights(sizes: Tensor, beta: float) -> Tensor:
    """One weight per class from its size, summing to the number of classes that have members."""  # [K]
    sizes = sizes.double()
    present = sizes > 0
    n = torch.where(present, sizes, 1.0)
    inverse = n ** (-1.0 if beta else 0.0)
    if 0 < beta < 1:  # 1 - beta^n without the rounding of a beta close to 1
        inverse = (1 - beta) / -torch.expm1(n * math.log(beta))
    inverse = inverse * present
    return inverse * present.sum() / inverse.sum().clamp_min(torch.finfo(inverse.dtype).tiny)
