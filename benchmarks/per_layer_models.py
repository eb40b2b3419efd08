"""The models that the step per layer is measured on, written plainly, and the cases made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fairweight as fw


class Block(nn.Module):
    """A transformer layer; norm first, as in ViT, or last, as in BERT."""

    def __init__(self, width: int, heads: int, first: bool) -> None:
        super().__init__()
        self.heads, self.first = heads, first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.project(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))

    def widen(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = x + self.attend(self.norm1(x))
            return x + self.widen(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.widen(x))


class ViT(nn.Module):
    """Patches, a class token, positions."""

    def __init__(self, size: int, patch: int, width: int, heads: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, first=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Encoder(nn.Module):
    """BERT's shape: embeddings of words and positions, norms last, a pooler."""

    def __init__(self, words: int, length: int, width: int, heads: int, depth: int, classes: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width, padding_idx=0), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, first=False) for _ in range(depth)))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.words(x) + self.positions(torch.arange(x.shape[1], device=x.device)))
        return self.head(torch.tanh(self.pool(self.blocks(h)[:, 0])))


class GroupNormResNet18(nn.Module):
    """ResNet-18 for 32 pixels, with group norm."""

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.GroupNorm(min(32, width), width)
        stages: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width * 2**stage
            stages += [_Residual(before, after, 1 if stage == 0 else 2), _Residual(after, after, 1)]
            before = after
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stages(F.relu(self.norm(self.stem(x)))).mean(dim=(2, 3)))


class _Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        groups = min(32, after)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(groups, after), nn.GroupNorm(groups, after)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.GroupNorm(groups, after))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


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


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    batch: int
    exemplars: int
    classes: int
    target: float
    wide: bool = False  # channels last
    adam: bool = False  # as the tables train it; else SGD with Nesterov momentum


def cases(quick: bool) -> list[Case]:
    if quick:
        return [
            Case("MLP 256-256", lambda: fw.MLP(108, 2), lambda n: torch.randn(n, 108), 128, 100, 2, 2.8, adam=True),
            Case("small ViT", lambda: ViT(32, 4, 128, 4, 4, 10), lambda n: torch.randn(n, 3, 32, 32), 64, 15, 10, 2.3),
            Case(
                "small BERT", lambda: Encoder(2000, 64, 128, 4, 4, 2), lambda n: torch.randint(1, 2000, (n, 64)), 64,
                15, 2, 2.3,
            ),
            Case(
                "small ResNet-18 GN", lambda: GroupNormResNet18(10, 8), lambda n: torch.randn(n, 3, 32, 32), 64, 15,
                10, 2.3,
            ),
        ]  # fmt: skip
    return [
        Case(
            "ViT-S/16", lambda: ViT(224, 16, 384, 6, 12, 1000), lambda n: torch.randn(n, 3, 224, 224), 128, 30, 1000,
            2.1,
        ),
        Case(
            "BERT-base", lambda: Encoder(30522, 128, 768, 12, 12, 2), lambda n: torch.randint(1, 30522, (n, 128)), 64,
            15, 2, 2.1,
        ),
        Case(
            "ResNet-18 GN", lambda: GroupNormResNet18(10), lambda n: torch.randn(n, 3, 32, 32), 128, 30, 10, 2.2, True,
        ),
        Case("ResNet-18 BN", lambda: fw.ResNet18(10), lambda n: torch.randn(n, 3, 32, 32), 128, 30, 10, 2.5, True),
    ]  # fmt: skip
