"""Models so small that their best parameters are known on paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BiasOnly(nn.Module):
    """One number, the logit of label 1, for every input."""

    def __init__(self, dtype=torch.float64) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.zeros((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.b.expand(len(x))


class Line(nn.Module):
    """Logit θ·x, without a bias."""

    def __init__(self, theta: list[float]) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.theta


def sgd(model: nn.Module, lr: float = 0.5) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)
