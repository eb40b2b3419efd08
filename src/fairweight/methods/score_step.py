"""How far a score moves along its gradient."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fairweight.constraints import FLAG, above, between, constrained

AGREEMENT_MEMORY = 0.9  # of earlier agreements, at each new one


class ScoreStep:
    """A rule that turns the scores' gradient into their move; subclasses write `move`."""

    @property
    def heeds(self) -> bool:
        """Whether it needs to `hear` how far exemplars agree."""
        return False

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        """What to add to the scores; visits: how often each sample has been seen, on average."""  # [B]
        raise NotImplementedError

    def limit(self, scores: Tensor, start: float) -> Tensor:
        """Scores within bounds around where they start."""  # [B]
        return scores

    def hear(self, agreement: Tensor) -> None:
        """Take in how far the halves of an exemplar batch agreed, [], from -1 to 1; it counts from the next step."""

    def fresh(self) -> ScoreStep:
        """The same rule without memory; a rule that keeps one clears it here."""
        return copy.deepcopy(self)

    def state_dict(self) -> dict[str, Any]:
        """The rule's memory."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the memory back."""


@constrained(scale=between(0), reverse=FLAG)
@dataclass
class PlainStep(ScoreStep):
    """The paper's: w ← w − scale · lr · gradient; reverse: plus."""

    scale: float = 1.0
    reverse: bool = False

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        return (self.scale * lr if self.reverse else -self.scale * lr) * gradient


@constrained(
    rate=above(0), fall=above(0), rise=above(0), slowing=between(0), memory=between(0, 1, below=True), heed=between(0)
)
@dataclass(eq=False)
class AdaptiveStep(ScoreStep):
    """Scale-free: the gradient per unit of weight over its running magnitude, times rate; scores stay within bounds.

    Dividing by a running magnitude, not the batch's own, lets a batch with nothing to say move little. The step
    follows the learning rate (rate is multiplied by lr over the largest lr seen) and slows with the square root of
    the visits, as an average does. A score falls further than it rises: a wrong label should count for nothing, and
    no sample for everything.

    heed: the step is also multiplied by this power of the pull's reliability, which is known from how far the halves
    of the exemplar batch agree (2 r / (1 + r) for a running mean r of their cosines); exemplars that say nothing then
    move nothing. 0: it is not.
    """

    rate: float = 0.3
    fall: float = 3.0
    rise: float = 1.0
    slowing: float = 0.5
    memory: float = 0.99
    heed: float = 0.0

    def __post_init__(self) -> None:
        self._running: Tensor | None = None  # [2]: decayed sums of the mean square and of 1
        self._agreements: Tensor | None = None  # [2]: decayed sums of the agreements and of 1
        self._top_lr = 0.0

    @property
    def heeds(self) -> bool:
        return self.heed > 0

    def hear(self, agreement: Tensor) -> None:
        if self.heeds:
            self._agreements = _mean_with(self._agreements, agreement, AGREEMENT_MEMORY)

    def reliability(self, device: torch.device) -> Tensor:
        """How reliable the pull is, from 0 to 1; 0 before the first agreement."""  # []
        if self._agreements is None:  # in place later: a captured graph replays the same memory
            self._agreements = torch.zeros(2, dtype=torch.float64, device=device)
        total, count = self._agreements.to(device)
        r = torch.where(count > 0, total / count.clamp_min(torch.finfo(count.dtype).tiny), 0.0).clamp(0, 1)
        return 2 * r / (1 + r)

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        counts = weights > 0
        per_weight = torch.where(counts, gradient / weights, 0.0)
        wide = per_weight.double()
        square = wide.dot(wide) / counts.sum().clamp_min(1)
        self._running = _mean_with(self._running, square, self.memory)
        magnitude = torch.div(*self._running).sqrt().to(per_weight.dtype)
        self._top_lr = max(self._top_lr, lr)
        follow = lr / self._top_lr if self._top_lr > 0 else 0.0
        rate: Tensor = -self.rate * follow / (1 + visits) ** self.slowing
        if self.heeds:
            rate = rate * (self.reliability(gradient.device) ** self.heed).to(rate.dtype)
        return rate * per_weight / magnitude.clamp_min(torch.finfo(magnitude.dtype).tiny)

    def limit(self, scores: Tensor, start: float) -> Tensor:
        return scores.clamp(start - self.fall, start + self.rise)

    def fresh(self) -> AdaptiveStep:
        return replace(self)

    def state_dict(self) -> dict[str, Any]:
        sums = {"running": self._running, **({"heard": self._agreements} if self.heeds else {})}
        return {name: None if t is None else t.clone() for name, t in sums.items()} | {"top_lr": self._top_lr}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        sums = (state["running"], state.get("heard"))
        self._running, self._agreements = (None if t is None else t.clone() for t in sums)
        self._top_lr = float(state["top_lr"])


def _mean_with(sums: Tensor | None, value: Tensor, memory: float) -> Tensor:
    """Decayed sums of values and of 1, one value more.

    In float64: squares of small numbers must not vanish. In place: a captured graph replays the same memory.
    """  # [2]
    device = value.device  # a loaded state may lie elsewhere
    sums = torch.zeros(2, dtype=torch.float64, device=device) if sums is None else sums.to(device)
    total, count = sums.mul_(memory)
    total.add_(value, alpha=1 - memory)
    count.add_(1 - memory)
    return sums
