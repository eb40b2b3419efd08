"""The networks of the scaling page, written plainly."""

from __future__ import annotations

import torch.nn.functional as F
from per_layer_models import Encoder
from torch import Tensor, nn


def encoder(width: int, depth: int) -> nn.Module:
    """A transformer for texts of at most 512 words; 2048 and 20 make one of 10⁹ parameters."""
    return Encoder(32_000, 512, width, max(1, width // 128), depth, 2)


class ResNet50(nn.Module):
    """For 224 pixels and 1,000 classes, with batch norm."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        layers: list[nn.Module] = []
        before = width
        for stage, depth in enumerate((3, 4, 6, 3)):
            for k in range(depth):
                layers.append(_Bottleneck(before, width * 2**stage, 2 if stage and k == 0 else 1))
                before = 4 * width * 2**stage
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(before, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(F.max_pool2d(self.stem(x), 3, 2, 1)).mean(dim=(2, 3)))


class _Bottleneck(nn.Module):
    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        after = 4 * inner
        shapes = [(before, inner, 1, 1), (inner, inner, 3, stride), (inner, after, 1, 1)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in shapes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _, _ in shapes)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.convs[0](x)))
        y = F.relu(self.norms[1](self.convs[1](y)))
        return F.relu(self.norms[2](self.convs[2](y)) + self.skip(x))
