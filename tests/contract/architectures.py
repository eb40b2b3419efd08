"""Architectures as people write them, small: what a stranger's model may do with its parameters and samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from tests.contract.unusual_models import (
    CLASSES,
    Bags,
    Bilinear,
    Binary,
    Frequencies,
    Frozen,
    Instance,
    Lora,
    ManyForms,
    Offsets,
    OneLogit,
    Scalars,
    Siamese,
    SometimesDeep,
    Spectral,
    WritesOver,
)
from torch import Tensor, nn

from fairweight.types import Batch


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int, seed: int) -> Batch:
    x = torch.randn(n, 2, 8, 8, generator=_generator(seed), dtype=torch.float64)
    return Batch(x, torch.arange(n) % CLASSES)


def vectors(n: int, seed: int) -> Batch:
    return Batch(torch.randn(n, 6, generator=_generator(seed), dtype=torch.float64), torch.arange(n) % CLASSES)


def series(n: int, seed: int) -> Batch:
    return Batch(torch.randn(n, 5, 6, generator=_generator(seed), dtype=torch.float64), torch.arange(n) % CLASSES)


def words(n: int, seed: int) -> Batch:
    return Batch(torch.randint(0, 12, (n, 5), generator=_generator(seed)), torch.arange(n) % CLASSES)


def tokens(n: int, seed: int) -> Batch:
    g = _generator(seed)
    ids = torch.randint(0, 12, (n, 5), generator=g)
    mask = (torch.arange(5)[None] < torch.randint(2, 6, (n, 1), generator=g)).long()
    kinds = torch.randint(0, 2, (n, 5), generator=g)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
    return Batch(inputs, torch.arange(n) % CLASSES)


def pairs(n: int, seed: int) -> Batch:
    g = _generator(seed)
    first, second = (torch.randn(n, 6, generator=g, dtype=torch.float64) for _ in range(2))
    return Batch((first, second), torch.arange(n) % CLASSES)


class Attention(nn.Module):
    def __init__(self, width: int = 6, heads: int = 2, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -1e9)
        if mask is not None:
            scores = scores + (1 - mask[:, None, None, :].to(x.dtype)) * -1e9
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, width: int = 6, causal: bool = False) -> None:
        super().__init__()
        self.attention = Attention(width, causal=causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Bert(nn.Module):
    """Inputs by name, a mask, token types, a pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds, self.places = nn.Embedding(12, 6, padding_idx=0), nn.Embedding(2, 6), nn.Embedding(8, 6)
        self.register_buffer("position_ids", torch.arange(8)[None], persistent=False)
        self.norm, self.block, self.pool, self.head = nn.LayerNorm(6), Block(), nn.Linear(6, 6), nn.Linear(6, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        h = self.words(input_ids) + self.kinds(token_type_ids) + self.places(self.position_ids[:, : input_ids.shape[1]])
        h = self.block(self.norm(h), attention_mask)
        return {"logits": self.head(torch.tanh(self.pool(h[:, 0])))}


class Gpt(nn.Module):
    """Tied output, positions as a bare parameter, RMS norm by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(12, 6), nn.Parameter(0.1 * torch.randn(5, 6))
        self.block, self.gain = Block(causal=True), nn.Parameter(torch.ones(6))
        self.output = nn.Linear(6, 12, bias=False)
        self.output.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.block(self.words(x) + self.places[: x.shape[1]])
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        return self.output(h)[:, -1, :CLASSES]


class Rotary(nn.Module):
    """Positions turned into queries and keys; a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.qk, self.v = nn.Embedding(12, 6), nn.Linear(6, 12, bias=False), nn.Linear(6, 6, bias=False)
        self.gate, self.up, self.down = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 6)
        self.norm, self.head = nn.RMSNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x)
        q, k = self.qk(self.norm(h)).chunk(2, dim=-1)
        angle = torch.arange(x.shape[1], dtype=h.dtype)[:, None] / torch.arange(1, 4, dtype=h.dtype)
        q, k = (torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
                for a, b in ((t[..., :3], t[..., 3:]) for t in (q, k)))  # fmt: skip
        h = h + F.scaled_dot_product_attention(q, k, self.v(h), is_causal=True)
        return self.head((h + self.down(F.silu(self.gate(h)) * self.up(h))).mean(1))


class UNet(nn.Module):
    """Down, up, and a way past; logits from a map."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.up, self.join = nn.ConvTranspose2d(6, 4, 2, stride=2), nn.Conv2d(8, 4, 3, padding="same", dilation=2)
        self.norm, self.last = nn.GroupNorm(2, 4), nn.Conv2d(4, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.norm(self.down1(x)), inplace=True)
        b = F.interpolate(F.leaky_relu(self.down2(a)), scale_factor=0.5, mode="bilinear")
        b = self.up(F.interpolate(b, scale_factor=2, mode="nearest"))
        return self.last(torch.tanh(self.join(torch.cat([a, b], dim=1)))).mean(dim=(2, 3))


class Mixer(nn.Module):
    """Layers over the transposed axis; as many tokens as a batch may have samples."""

    def __init__(self, patches: int = 16) -> None:
        super().__init__()
        self.patch = nn.Conv2d(2, 6, 2, 2)
        self.across, self.along = nn.Linear(patches, patches), nn.Linear(6, 6)
        self.norm1, self.norm2, self.head = nn.LayerNorm(6), nn.LayerNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.patch(x).flatten(2).mT
        h = h + self.across(self.norm1(h).mT).mT
        return self.head((h + F.gelu(self.along(self.norm2(h)))).mean(1))


class ConvNeXt(nn.Module):
    """Depthwise, channels last by hand, a scale of the layer, global response normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(2, 4, 2, 2), nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)
        self.gamma = nn.Parameter(1e-2 * torch.ones(4))
        self.alpha, self.beta = nn.Parameter(torch.zeros(1, 1, 1, 8)), nn.Parameter(torch.zeros(1, 1, 1, 8))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        h = F.gelu(self.up(self.norm(self.deep(x).permute(0, 2, 3, 1))))
        size = h.norm(dim=(1, 2), keepdim=True)
        h = self.alpha * (h * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.beta + h
        x = x + (self.gamma * self.down(h)).permute(0, 3, 1, 2)
        return self.head(x.mean((-2, -1)))


class Recurrent(nn.Module):
    def __init__(self, kind: Any = nn.LSTM, **options: Any) -> None:
        super().__init__()
        self.net = kind(6, 4, **options)
        self.first = options.get("batch_first", False)
        self.head = nn.Linear(8 if options.get("bidirectional") else 4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.net(x if self.first else x.transpose(0, 1))
        return self.head(out[:, -1] if self.first else out[-1])


class ByCell(nn.Module):
    """A recurrent cell in a loop, with a learned beginning."""

    def __init__(self, kind: Any = nn.GRUCell) -> None:
        super().__init__()
        self.cell, self.start, self.head = kind(6, 4), nn.Parameter(torch.randn(4)), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.start.expand(len(x), -1)
        state: Any = (h, torch.zeros_like(h)) if isinstance(self.cell, nn.LSTMCell) else h
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Seq2Seq(nn.Module):
    """Torch's whole transformer."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of nested tensors, which need the batch first
            self.net = nn.Transformer(6, 2, 1, 1, 8, dropout=0.0, batch_first=first)
        self.queries, self.head = nn.Parameter(torch.randn(2, 6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        queries = self.queries[None].expand(len(x), -1, -1)
        if self.first:
            return self.head(self.net(x, queries).mean(1))
        return self.head(self.net(x.transpose(0, 1), queries.transpose(0, 1)).mean(0))


class MultiHead(nn.Module):
    def __init__(self, first: bool, **options: Any) -> None:
        super().__init__()
        self.first = first
        self.net = nn.MultiheadAttention(6, 2, batch_first=first, **options)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.first else x.transpose(0, 1)
        return self.head(self.net(x, x, x)[0].mean(1 if self.first else 0))


class SoftExperts(nn.Module):
    """Every expert for every sample, weighed; experts in one bare tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 3), nn.Parameter(0.4 * torch.randn(3, 6, 5))
        self.shift, self.head = nn.Parameter(torch.zeros(3, 5)), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        share = self.gate(x).softmax(-1)
        each = torch.einsum("bi,eio->beo", x, self.experts) + self.shift
        return self.head((share[..., None] * torch.tanh(each)).sum(1))


class HardExperts(nn.Module):
    """Each sample goes to its best expert, which sees as many samples as chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 2)
        self.experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(2))
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        share = self.gate(x).softmax(-1)
        best = share.argmax(-1)
        out = x.new_zeros(len(x), 5)
        for k, expert in enumerate(self.experts):
            here = (best == k).nonzero().flatten()
            out = out.index_add(0, here, torch.tanh(expert(x[here])) * share[here, k, None])
        return self.head(out)


class Swin(nn.Module):
    """Windows merged into the batch, shifted, with relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.table = nn.Conv2d(2, 6, 2, 2), nn.Parameter(0.2 * torch.randn(9, 2))
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None] + 1
        self.register_buffer("index", apart[0] * 3 + apart[1])
        self.qkv, self.out = nn.Linear(6, 18), nn.Linear(6, 6)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        x = torch.roll(self.norm(x), (-1, -1), (1, 2))
        x = x.view(b, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(-1, 4, c)
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT + self.table[self.index.flatten()].view(4, 4, 2).permute(2, 0, 1).unsqueeze(0)
        x = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, c))
        x = x.view(b, h // 2, w // 2, 2, 2, c).transpose(2, 3).reshape(b, h, w, c)
        return self.head(x.mean((1, 2)))


Draw = Callable[[int, int], Batch]
ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], Draw]] = {
    "bert": (Bert, tokens),
    "gpt, tied": (Gpt, words),
    "rotary, gated": (Rotary, words),
    "u-net": (UNet, pictures),
    "mixer": (Mixer, pictures),
    "convnext": (ConvNeXt, pictures),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True), series),
    "gru": (lambda: Recurrent(nn.GRU), series),
    "rnn": (lambda: Recurrent(nn.RNN, nonlinearity="relu", batch_first=True), series),
    "gru cell": (ByCell, series),
    "lstm cell": (lambda: ByCell(nn.LSTMCell), series),
    "transformer": (lambda: Seq2Seq(True), series),
    "transformer, sequence first": (lambda: Seq2Seq(False), series),
    "multihead": (lambda: MultiHead(True), series),
    "multihead, sequence first": (lambda: MultiHead(False, bias=False), series),
    "multihead, zeros and keys": (lambda: MultiHead(True, add_zero_attn=True, add_bias_kv=True), series),
    "experts, soft": (SoftExperts, vectors),
    "experts, hard": (HardExperts, vectors),
    "swin": (Swin, pictures),
    "lora": (lambda: nn.Sequential(Lora(nn.Linear(6, 5)), nn.Tanh(), Lora(nn.Linear(5, CLASSES))), vectors),
    "bags, mean": (lambda: Bags("mean"), words),
    "bags, sum": (lambda: Bags("sum"), words),
    "bags, max": (lambda: Bags("max"), words),
    "bags, end to end": (Offsets, words),
    "bilinear": (Bilinear, pairs),
    "siamese": (lambda: Siamese(False), pairs),
    "siamese, end to end": (lambda: Siamese(True), pairs),
    "parametrizations": (Spectral, vectors),
    "instance norm": (Instance, pictures),
    "binary weights": (Binary, vectors),
    "control flow": (SometimesDeep, vectors),
    "frozen uses": (Frozen, vectors),
    "in place": (WritesOver, vectors),
    "scalars": (Scalars, vectors),
    "one logit": (OneLogit, vectors),
    "frequencies": (Frequencies, vectors),
    "many forms": (ManyForms, vectors),
}
PLAINLY: dict[str, Callable[[], nn.Module]] = {
    "bags, mean": lambda: Bags("mean", True),
    "bags, sum": lambda: Bags("sum", True),
    "bags, max": lambda: Bags("max", True),
    "bags, end to end": lambda: Bags("mean", True),
}
MIXING = ("mean", "attention", "shuffled", "norm", "largest", "neighbours")
