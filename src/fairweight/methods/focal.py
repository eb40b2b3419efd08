"""Focal loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairweight.constraints import FLAG, between, constrained
from fairweight.metagradient.passes import ForwardPass, in_full
from fairweight.methods import Reweighter, shares
from fairweight.types import Batch, Weighing


@constrained(gamma=between(0, 100), normalised=FLAG)
@dataclass(eq=False, repr=False, kw_only=True)
class Focal(Reweighter):
    """Multiplies each loss by (1 − p)^γ, p the probability of the true label: what is easy counts less.

    gamma: 0 is plain training. normalised: divide by the batch's factors, which keeps the meaning of the learning
    rate but lets easy batches count like hard ones; the paper's loss is their mean.
    """

    gamma: float = 2.0
    normalised: bool = False

    paper = "Lin, Goyal, Girshick, He, Dollár 2017, arXiv 1708.02002"

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """The factors; the gradient flows through them too."""
        factors = miss_probability(done.logits, done.batch.labels).pow(self.gamma).to(done.losses.dtype)
        total = (factors * done.losses).mean()
        if self.normalised:
            total = total / factors.detach().mean()
        return Weighing(shares(factors.detach()), total=total)


def miss_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """1 − p of the true label, kept off 0, where a power below 1 has no slope."""  # [B]
    logits = in_full(logits)
    if logits.ndim == 1 or logits.shape[1] == 1:
        flat = logits.reshape(len(labels))
        log_p = F.logsigmoid(torch.where(labels > 0, flat, -flat))
    else:
        log_p = F.log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    return (-torch.expm1(log_p)).clamp_min(torch.finfo(log_p.dtype).eps)
