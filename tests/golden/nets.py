"""Tiny nets and data in float64, made by torch alone, so that no move inside fairweight can change them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import fairweight as fw

CLASSES, TRAIN, EXEMPLARS = 3, 36, 18
SHAPES = {"mlp": (5,), "conv": (2, 6, 6), "transformer": (4, 6)}  # of one input


class Transformer(nn.Module):
    """One encoder layer over four tokens, the mean of which is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(6, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens).mean(dim=1))


def _layers(net: str) -> nn.Module:
    if net == "mlp":
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, CLASSES))
    if net == "conv":
        convolutions = [nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Tanh()]
        return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    return Transformer()


def model(net: str) -> nn.Module:
    """The net, each weight drawn in the order of its name: torch's own initialisation plays no part."""
    made = _layers(net).double()
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, p in sorted(made.named_parameters()):
            fan_in = p[0].numel() if p.ndim > 1 else 25
            p.copy_(torch.randn(p.shape, generator=draw, dtype=torch.float64) / fan_in**0.5)
            if p.ndim == 1:
                p.add_(0.5)
    return made


def samples(net: str, size: int, seed: int) -> fw.Batch:
    """Uneven labels and groups; every sixth label is wrong, so that there is something to weigh."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.tensor([0, 0, 1, 0, 2, 1])[torch.randint(6, (size,), generator=draw)]
    groups = torch.tensor([0, 0, 1])[torch.randint(3, (size,), generator=draw)]
    labels[:CLASSES], groups[:CLASSES] = torch.arange(CLASSES), torch.tensor([0, 1, 1])
    inputs = torch.randn(size, *SHAPES[net], generator=draw, dtype=torch.float64)
    inputs[..., 0] += labels.double().view(-1, *[1] * (len(SHAPES[net]) - 1)) - 0.5
    inputs[..., 1] += groups.double().view(-1, *[1] * (len(SHAPES[net]) - 1))
    labels[5::6] = (labels[5::6] + 1) % CLASSES
    return fw.Batch(inputs, labels, groups)
