"""The small net that benchmarks/class_fairness.py trains."""

from __future__ import annotations

from torch import nn


class SmallNet(nn.Sequential):
    """Four convolutions with batch norm, strided early so that a core trains an epoch in seconds."""

    def __init__(self, classes: int, width: int = 16) -> None:
        def block(inside: int, out: int, stride: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

        w = width
        super().__init__(
            block(3, w, 2), block(w, 2 * w, 2), block(2 * w, 4 * w, 1), block(4 * w, 4 * w, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * w, classes),
        )  # fmt: skip
