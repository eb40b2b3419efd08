"""Class-balanced weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairweight.constraints import between, constrained
from fairweight.methods._fixed_weights import StratumWeights


@constrained(beta=between(0, 1))
@dataclass(eq=False, repr=False, kw_only=True)
class ClassBalanced(StratumWeights):
    """Weighs each class by the inverse of its effective number of samples, (1 − β^n) / (1 − β).

    beta: 0 weighs all alike, 1 by inverse frequency. by: "label", or the same for "group" or "cell".
    """

    beta: float = 0.9999

    paper = "Cui, Jia, Lin, Song, Belongie 2019, arXiv 1901.05555"

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
