"""What steps saw of their samples, side by side for thousands of samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from fairweight.types import StepRecord, margin


def columns(records: Sequence[StepRecord], sizes: Sequence[int]) -> list[Tensor | None]:
    """Push, loss, weighted loss, weight times batch size, margin, lead and right; NaN or None where not known.

    The margin is in logits; the lead, the same in probabilities.
    """  # 7 of [M]
    losses = torch.cat([record.losses for record in records]).float()
    weights = torch.cat([record.weights for record in records]).float()
    start = 0
    for size, alike in groupby(sizes):  # all of an epoch's steps but the last are of one size
        end = start + size * len(list(alike))
        weights[start:end].mul_(size)
        start = end
    push = _joined([_push(record) for record in records], records)
    right = _joined([record.correct for record in records], records)
    return [push, losses, losses * weights, weights, *_margins(records), right]


def _margins(records: Sequence[StepRecord]) -> tuple[Tensor | None, Tensor | None]:
    """Margin and lead of each sample."""  # [M]
    logits = [record.logits for record in records if record.logits is not None]
    labels = [record.labels for record in records if record.labels is not None]
    if len(logits) == len(labels) == len(records):
        return _of_all(torch.cat(logits), torch.cat(labels))
    each = [(None, None) if r.logits is None or r.labels is None else _of_all(r.logits, r.labels) for r in records]
    return _joined([margins for margins, _ in each], records), _joined([leads for _, leads in each], records)


def _of_all(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if logits.ndim == 1 or logits.shape[1] <= 2:
        margins = margin(logits, labels).float()
        return margins, (margins / 2).tanh()  # of two, σ(m) − σ(−m)
    values = logits.float()
    true = values.gather(1, labels[:, None]).squeeze(1)
    other = values.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    total = values.logsumexp(dim=1)
    return true - other, (true - total).exp_().sub_((other - total).exp_())


def _joined(parts: Sequence[Tensor | None], records: Sequence[StepRecord]) -> Tensor | None:
    """The parts one after the other, NaN where a step had none; None where no step had any."""  # [M]
    known = [part for part in parts if part is not None]
    if len(known) == len(records):
        return torch.cat(known).float()
    if not known:
        return None
    pairs = zip(parts, records, strict=True)
    return torch.cat([torch.full_like(r.losses, torch.nan) if part is None else part for part, r in pairs]).float()


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


def _push(record: StepRecord) -> Tensor | None:
    """How much more weight the objective asks for each sample than for the batch, in units of the batch's spread."""
    if record.gradient is not None:
        asked = -record.gradient  # a lower objective by a higher score
    elif record.pull is not None:
        asked = record.pull - (record.weights * record.pull).sum()
    else:
        return None
    return asked / asked.square().mean().sqrt().clamp(min=torch.finfo(asked.dtype).tiny)
