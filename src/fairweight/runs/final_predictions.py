"""What the finished model says of each sample."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairweight.training.predict import logits
from fairweight.types import Samples

_AT_ONCE = 8_192  # samples whose logits are held together


class Opinions(NamedTuple):
    """The model's opinion of each sample, in eval mode."""

    predicted: Tensor  # [N] int64
    probability: Tensor  # [N] that it gives to the label that the sample has
    suggested: Tensor  # [N] int64, the best label but the one that the sample has


def opinions(model: nn.Module, samples: Samples) -> Opinions:
    """Of every sample; the logits are not kept."""
    parts = []
    where = samples.labels.device
    for start in range(0, len(samples), _AT_ONCE):
        batch = samples.take(torch.arange(start, min(start + _AT_ONCE, len(samples)), device=where))
        found = _two_columns(logits(model, batch))  # [B, K]
        labels = batch.labels.to(found.device)[:, None]  # [B, 1]
        chances = found.softmax(dim=1)
        parts.append(
            Opinions(
                chances.argmax(dim=1).cpu(),
                chances.gather(1, labels).squeeze(1).cpu(),
                chances.scatter(1, labels, -1.0).argmax(dim=1).cpu(),
            )
        )
    return Opinions(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _two_columns(found: Tensor) -> Tensor:
    """Logits of a binary task as those of two classes."""  # [B, K]
    flat = found.reshape(len(found), -1)
    return torch.cat([torch.zeros_like(flat), flat], dim=1) if flat.shape[1] == 1 else flat
