"""A few numbers for each training sample, from its inputs and its label together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.types import Batch, Samples

CHUNK = 1024


def autoencode(
    train: Samples,
    dimension: int = 10,
    *,
    hidden: int = 100,
    steps: int = 10_000,
    batch_size: int = 100,
    lr: float = 1e-3,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """The narrow layer, sigmoid, of an autoencoder of (inputs, one-hot label); MOEW's embedding.

    Inputs are standardised by column. Draws from a stream of its own: the caller's is left alone.
    """  # [N, d]
    stream = torch.Generator().manual_seed(seed)
    classes = int(train.labels.max()) + 1
    mean, spread = _scale(train, torch.device(device))
    d = len(mean)
    widths = d + classes, hidden, dimension, hidden, d + classes
    first, narrow, third, last = (_linear(a, b, stream, mean.device) for a, b in pairwise(widths))
    embed = nn.Sequential(first, nn.ReLU(), narrow, nn.Sigmoid())
    restore = nn.Sequential(third, nn.ReLU(), last)

    def joined(batch: Batch) -> Tensor:
        x = (_flat(batch).to(mean) - mean) / spread
        return torch.cat([x, F.one_hot(batch.labels.to(mean.device), classes).to(x.dtype)], dim=1)

    optimizer = torch.optim.Adam([*embed.parameters(), *restore.parameters()], lr=lr)
    with torch.enable_grad():
        for _ in range(steps):
            rows = torch.randint(len(train), (min(batch_size, len(train)),), generator=stream)
            xy = joined(train.take(rows.to(train.labels.device)))
            made = restore(embed(xy))
            loss = F.mse_loss(made[:, :d], xy[:, :d]) + F.mse_loss(made[:, d:], xy[:, d:])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with torch.no_grad():
        return torch.cat([embed(joined(batch)) for batch in _chunks(train)])


def _chunks(train: Samples) -> Iterator[Batch]:
    for places in torch.split(torch.arange(len(train), device=train.labels.device), CHUNK):
        yield train.take(places)


def _flat(batch: Batch) -> Tensor:
    if not isinstance(batch.inputs, Tensor):
        raise BadInput(
            f"The autoencoder reads one tensor per batch and was given {type(batch.inputs).__name__}; use "
            "embedding='label', or give an embedding tensor [samples, numbers] of your own."
        )
    return batch.inputs.reshape(len(batch), -1).float()


def _scale(train: Samples, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every column; a constant column is left as it is."""  # [D], [D]
    total = square = torch.zeros((), dtype=torch.float64, device=device)
    for batch in _chunks(train):
        x = _flat(batch).to(device).double()
        total, square = total + x.sum(dim=0), square + x.square().sum(dim=0)
    mean = total / len(train)
    spread = (square / len(train) - mean.square()).clamp_min(0).sqrt()
    return mean.float(), torch.where(spread > 1e-6, spread, 1.0).float()


def _linear(inputs: int, outputs: int, stream: torch.Generator, device: torch.device) -> nn.Linear:
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    for p in layer.parameters():
        nn.init.uniform_(p, -(inputs**-0.5), inputs**-0.5, generator=stream)
    return layer.to(device)
