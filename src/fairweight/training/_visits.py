"""What steps saw of their samples, side by side for thousands of samples at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from fairweight.types import StepRecord

Parts = Sequence[Tensor | None]
# What is held of one step: an entry of each part of `Visits`. A plain tuple, because every step makes one.
Visit = tuple[Tensor, int, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


class Visits(NamedTuple):
    """What is held of many steps, part by part, an entry per step; the rest of their records is free at once."""

    rows: tuple[Tensor, ...]  # [B]
    versions: tuple[int, ...]  # how often the rows had been written to when they were given
    losses: tuple[Tensor, ...]  # [B]
    weights: tuple[Tensor, ...]  # [B]
    correct: Parts  # [B]
    logits: Parts  # [B, K] or [B]
    labels: Parts  # [B]
    pull: tuple[Tensor | None, ...]  # [B]
    gradient: tuple[Tensor | None, ...]  # [B]

    @property
    def pushed(self) -> bool:
        """Whether any step knows a push."""
        return not {None}.issuperset(self.pull + self.gradient)  # a quarter of the time that a loop takes

    @property
    def judged(self) -> bool:
        """Whether every step knows which predictions were right."""
        return all(part is not None for part in self.correct)

    def columns(self) -> Iterator[Tensor | None]:
        """Push, loss, weight times batch size, margin, lead and right; None where no step knows.

        The margin is in logits; the lead, the same in probabilities. What one step does not know is NaN, or 0 if it is
        the push. One at a time, so that the next is made in memory which is still in the cache.
        """  # 6 of [M]
        yield _joined(self._pushes(), self.losses, unknown=0.0) if self.pushed else None
        yield torch.cat(self.losses).float()
        yield self._weights()
        yield from self._margins()
        yield _joined(self.correct, self.losses)

    def _weights(self) -> Tensor:
        weights = torch.cat(self.weights).float()
        start = 0
        for size, alike in groupby([rows.numel() for rows in self.rows]):  # all of an epoch's but the last are one size
            end = start + size * len(list(alike))
            weights[start:end].mul_(size)
            start = end
        return weights

    def _pushes(self) -> Parts:
        return [_push(*parts) for parts in zip(self.weights, self.pull, self.gradient, strict=True)]

    def _margins(self) -> tuple[Tensor | None, Tensor | None]:
        """Margin and lead of each sample."""  # [M]
        logits = [part for part in self.logits if part is not None]
        labels = [part for part in self.labels if part is not None]
        if len(logits) == len(labels) == len(self.rows):
            return _of_all(torch.cat(logits), torch.cat(labels))
        pairs = zip(self.logits, self.labels, strict=True)
        each = [(None, None) if z is None or y is None else _of_all(z, y) for z, y in pairs]
        return _joined([m for m, _ in each], self.losses), _joined([lead for _, lead in each], self.losses)


def _of_all(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if logits.ndim == 1 or logits.shape[1] <= 2:
        towards = logits[:, 1] - logits[:, 0] if logits.shape[1:] == (2,) else logits.flatten()
        margins = (labels > 0).float().mul_(2).sub_(1).mul_(towards)
        return margins, margins.sigmoid().mul_(2).sub_(1)  # of two, σ(m) − σ(−m)
    values = logits.float()
    true = values.gather(1, labels[:, None]).squeeze(1)
    other = values.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    total = values.logsumexp(dim=1)
    return true - other, (true - total).exp_().sub_((other - total).exp_())


def _joined(parts: Parts, losses: Sequence[Tensor], unknown: float = torch.nan) -> Tensor | None:
    """The parts one after the other; None where no step has any."""  # [M]
    known = [part for part in parts if part is not None]
    if len(known) == len(losses):
        return torch.cat(known).float()
    if not known:
        return None
    pairs = zip(parts, losses, strict=True)
    return torch.cat([torch.full_like(like, unknown) if part is None else part for part, like in pairs]).float()


def _push(weights: Tensor, pull: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    """How much more weight the objective asks for each sample than for the batch, in units of the batch's spread."""
    if gradient is not None:
        asked = -gradient  # a lower objective by a higher score
    elif pull is not None:
        asked = pull - (weights * pull).sum()
    else:
        return None
    return asked / asked.square().mean().sqrt().clamp(min=torch.finfo(asked.dtype).tiny)


def in_memory_of_its_own(record: StepRecord) -> StepRecord:
    """What a history takes from a step, in memory of its own."""

    def own(part: Tensor | None) -> Tensor | None:
        return None if part is None else part.clone()

    return StepRecord(
        record.loss,
        record.losses.clone(),
        record.weights.clone(),
        own(record.correct),
        own(record.logits),
        own(record.labels),
        pull=own(record.pull),
        gradient=own(record.gradient),
    )
