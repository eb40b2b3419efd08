"""What is kept of each sample, and how a visit and an epoch are added to it."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.training._visits import Visits

# What is kept of each sample. Visits are noted as push, loss, weighted loss, weight, margin, lead, right: three runs of
# them go into three runs of these, each in one pass over memory.
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
# Places of the columns of `Visits` in a note: the weighted loss, between, is the product of its neighbours.
_NOTED = (0, 1, 3, 4, 5, 6)
AT = {name: place for place, name in enumerate(COLUMNS)}
THIS_EPOCH = slice(AT["epoch_loss"], AT["epoch_weight"] + 1)
_LAST_VISIT = slice(AT["epoch_loss"], AT["margin"] + 1)
_MARGINS = slice(AT["margin_sum"], AT["lead_sum"] + 1)


def note(noted: Tensor, places: Tensor, visits: Visits) -> None:
    """Put the columns of these visits at these places of [7, M], where no push is noted yet."""
    for number, column in zip(_NOTED, visits.columns(), strict=True):
        if column is not None:
            noted[number].scatter_(0, places, column)
        elif number > 0:
            noted[number].index_fill_(0, places, torch.nan)


def move(history: Tensor, noted: Tensor, decay: float, pushed: bool, judged: bool) -> None:
    """Add one more visit of each sample, as it is noted [7, M], to the history [C, M].

    In place, because memory that is asked for anew costs more than the sums; what was noted is used up.
    pushed: whether any push is known; judged: whether it is known of all predictions that they were right, or not.
    """
    push, losses, weighted, weights, *_, right = noted
    torch.mul(losses, weights, out=weighted)
    column = dict(zip(COLUMNS, history, strict=True))
    if pushed:
        column["pushed_up"].add_(push > 0)
        push.nan_to_num_(0.0)
    history[: len(_AVERAGES)].lerp_(noted[: len(_AVERAGES)], 1 - decay)
    history[_LAST_VISIT].copy_(noted[1:5])
    history[_MARGINS].add_(noted[4:6])
    column["visits"].add_(1)
    before = column["right"]
    if judged:
        column["judged"].add_(1)
        column["learned"].add_(right)
    else:
        known = ~right.isnan()
        column["judged"].add_(known)
        column["learned"].add_(right.nan_to_num(0.0))
        right = torch.where(known, right, before)
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
