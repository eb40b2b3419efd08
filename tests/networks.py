"""Small smooth networks of every kind that a gradient mode must cope with."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import fairweight as fw
from fairweight.types import Batch

CLASSES = 3


def vectors(size: int, width: int = 6, dtype=torch.float64, groups: bool = False, seed: int = 1) -> Batch:
    """Random vectors; every label occurs, and every group."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(size, width, generator=g, dtype=torch.float64).to(dtype)
    return Batch(x, torch.arange(size) % CLASSES, torch.arange(size) // 2 % 2 if groups else None)


def pictures(size: int, seed: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(torch.randn(size, 2, 6, 6, generator=g, dtype=torch.float64), torch.arange(size) % CLASSES)


def sentences(size: int, seed: int = 1, dtype=torch.float64) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(torch.randn(size, 4, 8, generator=g, dtype=torch.float64).to(dtype), torch.arange(size) % CLASSES)


def mlp(width: int = 6, classes: int = CLASSES) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 7), nn.Tanh(), nn.Linear(7, 5), nn.Softplus(), nn.Linear(5, classes))


def conv_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.SiLU(),
        nn.Conv2d(4, 4, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4, momentum=None),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(36, CLASSES),
    )


def group_layer_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.Flatten(),
        nn.LayerNorm(144),
        nn.Linear(144, 8),
        nn.Tanh(),
        nn.Linear(8, CLASSES),
    )


class Encoder(nn.Module):
    """PyTorch's own transformer encoder, pooled."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(dim=1))


class DirectAttention(nn.Module):
    """One head of attention by scaled_dot_product_attention."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.project(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        return self.head(torch.tanh(mixed).mean(dim=1))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, hidden: int = 8) -> None:
        super().__init__()
        self.inner = kind(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)[0][:, -1])


def dropout() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 24), nn.Tanh(), nn.Dropout(0.5), nn.Linear(24, 12), nn.Tanh(), nn.Dropout(0.3), nn.Linear(12, 3)
    )


class TwoInputs(nn.Module):
    """Takes (left, right), by position or by name."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 5), nn.Linear(4, 5), nn.Linear(5, CLASSES)

    def forward(self, left: Tensor, right: Tensor, scale: float = 1.0) -> Tensor:
        return self.head(torch.tanh(scale * self.left(left) + self.right(right)))


def two_inputs(size: int, kind: str, seed: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    left = torch.randn(size, 6, generator=g, dtype=torch.float64)
    right = torch.randn(size, 4, generator=g, dtype=torch.float64)
    inputs = {"tuple": (left, right), "list": [left, right], "dict": {"left": left, "right": right, "scale": 0.7}}[kind]
    return Batch(inputs, torch.arange(size) % CLASSES)


def frozen() -> nn.Module:
    model = mlp()
    model[0].weight.requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return model


class Tied(nn.Module):
    """Two layers with one matrix, and the second use transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, CLASSES)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.head(torch.tanh(F.linear(h, self.first.weight.T)))


class Wrapped(nn.Module):
    """Gives its logits inside something else, as model libraries do."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = mlp(), how

    def forward(self, x: Tensor):
        z = self.inner(x)
        ways = {
            "object": lambda: SimpleNamespace(loss=None, logits=z),
            "dict": lambda: {"hidden": x, "logits": z},
            "tuple": lambda: (z, x),
        }
        return ways[self.how]()


class OneLogit(nn.Module):
    """A binary task with one logit per sample, [B, 1] or [B]."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.inner, self.flat = mlp(classes=1), flat

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(x)
        return z.squeeze(1) if self.flat else z


def binary(size: int, seed: int = 1) -> Batch:
    drawn = vectors(size, seed=seed)
    return Batch(drawn.inputs, torch.arange(size) % 2)


def weight_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(7, CLASSES)))


def spectral() -> nn.Module:
    """Divides a matrix by its largest singular value, which a buffer tracks."""
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 7)), nn.Tanh(), nn.Linear(7, CLASSES))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3)), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, x, use_reentrant=False))


class Words(nn.Module):
    """Embeds integers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embed(x)).mean(dim=1))


def words(size: int, seed: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(torch.randint(0, 11, (size, 4), generator=g), torch.arange(size) % CLASSES)


def short_resnet(classes: int = 4, width: int = 4) -> nn.Module:
    """The first and the third of ResNet-18's blocks, one with a step in its way past: a fifth of the time to trace."""
    made = fw.ResNet18(classes, width=width)
    made.stages = nn.Sequential(made.stages[0], made.stages[2])
    made.head = nn.Linear(2 * width, classes)
    return made
