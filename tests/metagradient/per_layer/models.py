"""Small models that use their parameters in every way that per-layer gradients must cope with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tests import networks as net
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fairweight.types import Batch


class Block(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2, gamma: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gamma = nn.Parameter(0.1 * torch.ones(width)) if gamma else None

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.project(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(b, t, d)
        mixed = F.dropout(self.out(mixed), self.dropout, self.training)
        x = x + (mixed if self.gamma is None else self.gamma * mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    """Class token, positions, scales of layers."""

    def __init__(self, gamma: bool = True, dropout: float = 0.0, in_place: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(2, 8, 2, 2)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(0.1 * torch.randn(1, 10, 8))
        self.blocks = nn.Sequential(*(Block(gamma=gamma, dropout=dropout) for _ in range(2)))
        self.norm, self.head, self.in_place = nn.LayerNorm(8), nn.Linear(8, net.CLASSES), in_place

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        if self.in_place:
            x += self.positions
        else:
            x = x + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class GPT(nn.Module):
    """Embeddings that the output layer shares, positions by number, causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(11, 8, padding_idx=0), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x) + self.positions(torch.arange(x.shape[1], device=x.device))[None]
        for block in self.blocks:
            h = block(h, causal=True)
        return F.linear(self.norm(h)[:, -1], self.words.weight)[:, : net.CLASSES]


class Conv1D(nn.Module):
    """GPT-2's linear layer."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.3 * torch.randn(before, after)), nn.Parameter(torch.zeros(after))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Turned(nn.Module):
    """Torch's own layers, sequence first, around a layer over merged rows."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=first, activation="gelu")
        self.rows, self.head = Conv1D(8, 8), nn.Linear(8, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.first else x.transpose(0, 1)
        h = torch.tanh(self.rows(self.layer(x).contiguous()))
        return self.head(h.mean(dim=1 if self.first else 0))


class Decoder(nn.Module):
    """Attention with learned queries, over another's keys, with learned keys and values beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 3, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=8, vdim=8, add_bias_kv=True)
        self.head = nn.Linear(8, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.attention(self.queries.expand(len(x), -1, -1), x, x, need_weights=False)
        return self.head(torch.tanh(found).mean(dim=1))


class Windows(nn.Module):
    """Windows merged into the batch, with relative positions in attention, as in Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(0.3 * torch.randn(7, 2))
        self.register_buffer("index", torch.arange(2)[:, None] - torch.arange(2)[None] + 3)
        self.project, self.head = nn.Linear(8, 24), nn.Linear(8, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        w = x.reshape(b * t // 2, 2, d)
        q, k, v = self.project(w).view(-1, 2, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) + self.table[self.index].permute(2, 0, 1)[None]
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        return self.head(torch.tanh(mixed).mean(dim=1))


class Adapter(nn.Module):
    """A frozen layer with a low-rank one beside it, which begins at 0; or with the two merged into one matrix."""

    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.merged = merged
        self.base, self.head = nn.Linear(6, 7), nn.Linear(7, net.CLASSES)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.zeros(7, 2))

    def forward(self, x: Tensor) -> Tensor:
        if self.merged:
            h = F.linear(x, self.base.weight + self.up @ self.down, self.base.bias)
        else:
            h = self.base(x) + F.linear(F.linear(x, self.down), self.up)
        return self.head(torch.tanh(h))


class Twice(nn.Module):
    """One layer used two times, and a bare parameter three times."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, net.CLASSES)
        self.scale = nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(torch.tanh(self.inner(x)) * self.scale)) / (1 + self.scale**2)
        return self.head(h + self.scale)


class Shared(nn.Module):
    """A layer under three names."""

    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Linear(6, 6)
        self.a, self.b = nn.Sequential(self.enc, nn.Tanh()), nn.Sequential(self.enc, nn.Sigmoid())
        self.head = nn.Linear(6, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.a(x) + self.b(x))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.reentrant = nn.Linear(6, 8), reentrant
        self.inner, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3)), nn.Linear(8, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant))


class InPlace(nn.Module):
    """Activations that write over a layer's output, and a parameter written into samples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, net.CLASSES)
        self.mask = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        h = F.softplus(self.second(torch.sigmoid_(self.first(x))).tanh_())
        h[:, 2:5] = self.mask
        return self.head(h.mul_(1.5))


class OverRows(nn.Module):
    """Rows of sentences that activations, numbers and masks write over: what a linear layer gives of them is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, net.CLASSES)
        self.shift = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(self.first(x).relu_())
        h += self.shift
        h[:, 2:] *= 0.5
        h[x[..., 0] > 0] = 0.0
        return self.head(torch.tanh(h).mean(dim=1))


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g

    @staticmethod
    def jvp(ctx, dx, dw):
        x, w = ctx.saved_tensors
        return (0 if dx is None else dx @ w) + (0 if dw is None else x @ dw)


class Hidden(nn.Module):
    """A small parameter that only a function with a backward pass of its own sees."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.own, self.head = nn.Linear(6, 20), nn.Parameter(torch.randn(4, 4)), nn.Linear(20, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(x))
        return self.head(torch.cat([h[:, :16], torch.tanh(Own.apply(h[:, 16:], self.own))], dim=1))


class Contrast(nn.Module):
    """Samples see each other without batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, net.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(x))
        return self.head(h - h.mean(dim=0))


def small(size: int, seed: int = 1) -> Batch:
    """Sentences of six words, some of them padding."""
    g = torch.Generator().manual_seed(seed)
    return Batch(torch.randint(0, 11, (size, 6), generator=g), torch.arange(size) % net.CLASSES)


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3, groups=4, stride=2, bias=False),
        nn.SiLU(inplace=True),
        nn.ConvTranspose2d(4, 3, 2),
        nn.PReLU(3),
        nn.Flatten(),
        nn.Linear(27, net.CLASSES),
    )


# name: model, how its batches are drawn, whether both orders of derivative exist beside it
MODELS = {
    "vit": (ViT, net.pictures),
    "vit, dropout": (lambda: ViT(dropout=0.3), net.pictures),
    "vit, in place": (lambda: ViT(in_place=True), net.pictures),
    "gpt, tied": (GPT, small),
    "torch's layer, batch first": (lambda: Turned(True), net.sentences),
    "torch's layer, sequence first": (lambda: Turned(False), net.sentences),
    "learned queries": (Decoder, net.sentences),
    "windows": (Windows, net.sentences),
    "adapter": (lambda: Adapter(False), net.vectors),
    "adapter, merged": (lambda: Adapter(True), net.vectors),
    "several uses": (Twice, net.vectors),
    "three names": (Shared, net.vectors),
    "checkpoint": (lambda: Checkpointed(False), net.vectors),
    "in place": (InPlace, net.vectors),
    "in place over rows": (OverRows, net.sentences),
    "convolutions": (convolutions, net.pictures),
    "group and layer norm": (net.group_layer_norm, net.pictures),
    "lstm": (net.Recurrent, net.sentences),
    "gru": (lambda: net.Recurrent(nn.GRU), net.sentences),
    "weight norm": (net.weight_norm, net.vectors),
    "embedding": (net.Words, net.words),
    "tied": (net.Tied, net.vectors),
    "frozen": (net.frozen, net.vectors),
    "own function": (Hidden, net.vectors),
}
