"""Visits of samples: what a step tells of each, what the history keeps, and how the one is added to the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fairweight.training._step_buffer import Steps
from fairweight.types import StepRecord, sent

Parts = Sequence[Tensor | None]

# Columns of a visit and of the history, in such an order that three runs of the one go into three runs of the other,
# each in one pass over memory.
VISIT = ("push", "loss", "weighted_loss", "weight", "margin", "lead", "right")
_AVERAGES = (
    "push",  # of how much more weight the objective asked for than for the rest of the batch, in units of the batch
    "loss",
    "weighted_loss",  # of p_i B l_i
    "weight",  # of p_i B
)
_LAST = (
    "epoch_loss",  # at the last visit of this epoch, NaN before it
    "epoch_weighted_loss",
    "epoch_weight",
    "margin",  # at the last visit
)
_SUMS = (
    "margin_sum",
    "lead_sum",  # of the margin in probabilities
    "visits",
    "judged",  # visits at which it was known whether the prediction was right
    "learned",  # visits at which it was
    "forgotten",  # visits at which it was not, after one at which it was
    "pushed_up",  # visits at which the objective asked for more weight
)
COLUMNS = (*_AVERAGES, *_LAST, *_SUMS, "right")  # right: whether the prediction was, when that was last known
AT = {name: place for place, name in enumerate(COLUMNS)}
THIS_EPOCH = slice(AT["epoch_loss"], AT["epoch_weight"] + 1)
_LAST_VISIT = slice(AT["epoch_loss"], AT["margin"] + 1)
_MARGINS = slice(AT["margin_sum"], AT["lead_sum"] + 1)


def note(noted: Tensor, places: Tensor, steps: Steps) -> None:
    """Put what these steps saw at these places of [7, M], where every push is 0.

    What a step does not know is NaN, or 0 if it is the push. The weighted loss is left to `move`.
    """
    for name, column in _columns(steps.records):
        if column is not None:
            noted[VISIT.index(name)].scatter_(0, places, column)
        elif name != "push":
            noted[VISIT.index(name)].index_fill_(0, places, torch.nan)


def _columns(records: Sequence[StepRecord]) -> Iterator[tuple[str, Tensor | None]]:
    """All but the weighted loss; None where no step knows.

    One at a time, so that the next is made in memory which is still in the cache.
    """  # [M] each
    losses = [r.losses for r in records]
    yield "push", _joined([_push(r) for r in records], losses, unknown=0.0)
    yield "loss", torch.cat(losses).float()
    yield "weight", _weights(records)
    margins, leads = _margins(records, losses)
    yield "margin", margins
    yield "lead", leads
    yield "right", _joined([r.correct for r in records], losses)


def _joined(parts: Parts, losses: Sequence[Tensor], unknown: float = torch.nan) -> Tensor | None:
    known = [part for part in parts if part is not None]
    if len(known) == len(losses):
        return torch.cat(known).float()
    if not known:
        return None
    pairs = zip(parts, losses, strict=True)
    return torch.cat([torch.full_like(like, unknown) if part is None else part for part, like in pairs]).float()


def _push(record: StepRecord) -> Tensor | None:
    """How much more weight the objective asks for each sample than for the batch, in units of the batch's spread."""
    if record.gradient is not None:
        asked = -record.gradient  # a higher score lowers the objective
    elif record.pull is not None:
        asked = record.pull - (record.weights * record.pull).sum()
    else:
        return None
    return asked / asked.square().mean().sqrt().clamp(min=torch.finfo(asked.dtype).tiny)


def _weights(records: Sequence[StepRecord]) -> Tensor:
    """Weights times the size of their batch."""  # [M]
    weights = torch.cat([r.weights for r in records]).float()
    sizes = torch.tensor([len(r.losses) for r in records])
    return weights.mul_(sent(sizes.repeat_interleave(sizes), weights.device))


def _margins(records: Sequence[StepRecord], losses: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    logits = [r.logits for r in records if r.logits is not None]
    labels = [r.labels for r in records if r.labels is not None]
    if len(logits) == len(labels) == len(records):
        return margin_and_lead(torch.cat(logits), torch.cat(labels))
    pairs = [(r.logits, r.labels) for r in records]
    each = [(None, None) if z is None or y is None else margin_and_lead(z, y) for z, y in pairs]
    return _joined([margin for margin, _ in each], losses), _joined([lead for _, lead in each], losses)


def margin_and_lead(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """True logit minus the best other, and the same in probabilities."""  # [M] each
    if logits.ndim == 1 or logits.shape[1] <= 2:
        towards = logits[:, 1] - logits[:, 0] if logits.shape[1:] == (2,) else logits.flatten()
        margins = (labels > 0).float().mul_(2).sub_(1).mul_(towards)
        return margins, margins.sigmoid().mul_(2).sub_(1)  # of two, σ(m) − σ(−m)
    values = logits.float()
    true = values.gather(1, labels[:, None]).squeeze(1)
    other = values.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    total = values.logsumexp(dim=1)
    return true - other, (true - total).exp_().sub_((other - total).exp_())


def move(history: Tensor, noted: Tensor, decay: float) -> None:
    """Add one more visit of each sample, as it is noted [7, M], to the history [C, M].

    In place, because new memory costs more than the sums; what was noted is used up.
    """
    push, losses, weighted, weights, *_, right = noted
    torch.mul(losses, weights, out=weighted)
    column = dict(zip(COLUMNS, history, strict=True))
    if bool(push.count_nonzero()):
        column["pushed_up"].add_(push > 0)
        push.nan_to_num_(0.0)
    history[: len(_AVERAGES)].lerp_(noted[: len(_AVERAGES)], 1 - decay)
    history[_LAST_VISIT].copy_(noted[1:5])
    history[_MARGINS].add_(noted[4:6])
    column["visits"].add_(1)
    before = column["right"]
    if math.isnan(right.sum()):
        known = ~right.isnan()
        column["judged"].add_(known)
        column["learned"].add_(right.nan_to_num(0.0))
        right = torch.where(known, right, before)
    else:
        column["judged"].add_(1)
        column["learned"].add_(right)
    column["forgotten"].add_(before.sub_(right).clamp_(min=0))  # 1 where it was right and is no more
    before.copy_(right)


def average(epochs: Tensor, losses: Tensor, weighted: Tensor, over_set: Tensor, decay: float) -> None:
    """Add one more epoch, in which every sample was seen, to the averages over epochs [4, M], in place.

    Where all losses of an epoch are 0, or all weights, each is as large as the mean, and counts 0.
    """
    epochs.mul_(decay)
    epochs[0].add_(1 - decay)
    epochs[1].addcdiv_(losses, _divisor(losses.mean()), value=1 - decay)
    epochs[2].addcdiv_(weighted, _divisor(weighted.mean()), value=1 - decay)
    epochs[3].addcmul_(over_set, losses, value=1 - decay)


def _divisor(mean: Tensor) -> Tensor:
    return torch.where(mean == 0, torch.ones_like(mean), mean)
