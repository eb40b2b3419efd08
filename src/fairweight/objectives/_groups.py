"""Mean loss by group, without waiting for the device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Up to this many exemplars every pair is compared, which needs no wait on a GPU; beyond it groups are counted.
PAIRWISE = 1024


class GroupLosses(NamedTuple):
    """Group losses, repeated or not: entry k stands for share[k] of one group."""

    loss: Tensor  # [M]
    share: Tensor  # [M] sums to the number of groups; 0 where the entry does not count

    @property
    def number(self) -> Tensor:
        """How many groups there are."""  # []
        return self.share.sum()

    def mean(self) -> Tensor:
        """Plain mean over groups; 0 where there are none."""  # []
        return (self.share * self.loss).sum() / self.number.clamp_min(1.0)

    def largest(self) -> Tensor:
        """The worst group's loss."""  # []
        return _or_zero(self.loss.masked_fill(self.share == 0, -torch.inf).amax(), self.number)

    def soft_largest(self, softness: float) -> Tensor:
        """t log mean exp(L / t), which is L where all groups are equal; the largest at softness 0."""  # []
        if softness <= 0:
            return self.largest()
        # share inside the logarithm: each group counts once however often it is repeated
        log_share = torch.where(self.share > 0, self.share, torch.ones_like(self.share)).log()
        log_share = log_share.masked_fill(self.share == 0, -torch.inf)
        top = torch.logsumexp(self.loss / softness + log_share, dim=0) - self.number.clamp_min(1.0).log()
        return _or_zero(softness * top, self.number)

    def smallest(self) -> Tensor:
        """The best group's loss."""  # []
        return _or_zero(self.loss.masked_fill(self.share == 0, torch.inf).amin(), self.number)


def _or_zero(value: Tensor, number: Tensor) -> Tensor:
    return torch.where(number > 0, value, torch.zeros_like(value))


def group_losses(losses: Tensor, groups: Tensor) -> GroupLosses:
    """Mean loss of each group in the batch; samples with a negative group are left out."""
    if len(losses) == 0:
        return GroupLosses(losses.new_zeros(1), losses.new_zeros(1))
    known = groups >= 0
    if len(losses) <= PAIRWISE:
        same = (groups[:, None] == groups[None, :]) & known[None, :]  # [E, E]
        number = same.sum(dim=1).clamp_min(1).to(losses.dtype)  # [E]
        mean = torch.where(same, losses, 0.0).sum(dim=1) / number  # nobody's group is the same as one not known
        return GroupLosses(mean, known / number)
    kept = groups[known]
    unique, index = torch.unique(kept, return_inverse=True)
    if len(unique) == 0:
        return GroupLosses(losses.new_zeros(1), losses.new_zeros(1))
    total = losses.new_zeros(len(unique)).index_add(0, index, losses[known])
    number = torch.bincount(index, minlength=len(unique)).to(losses.dtype)
    return GroupLosses(total / number, torch.ones_like(total))
