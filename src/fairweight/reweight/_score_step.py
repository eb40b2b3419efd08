"""How far a score moves along its gradient."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput


class ScoreStep:
    """A rule that turns the scores' gradient into their move; subclasses write `move`."""

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        """What to add to the scores; visits: how often each sample has been seen, on average."""  # [B]
        raise NotImplementedError

    def limit(self, scores: Tensor, start: float) -> Tensor:
        """Scores within bounds around where they start."""  # [B]
        return scores

    def fresh(self) -> ScoreStep:
        """The same rule without memory; a rule that keeps one clears it here."""
        return copy.deepcopy(self)

    def state_dict(self) -> dict[str, Any]:
        """The rule's memory."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the memory back."""


@dataclass
class PlainStep(ScoreStep):
    """The paper's: w ← w − scale · lr · gradient; reverse: plus."""

    scale: float = 1.0
    reverse: bool = False

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        """Minus scale times lr times the gradient."""  # [B]
        return (self.scale * lr if self.reverse else -self.scale * lr) * gradient

    def fresh(self) -> PlainStep:
        """The same rule."""
        return PlainStep(self.scale, self.reverse)


class AdaptiveStep(ScoreStep):
    """Scale-free: the gradient per unit of weight over its running magnitude, times rate; scores stay within bounds.

    Dividing by a running magnitude, not the batch's own, lets a batch with nothing to say move little. The step
    follows the learning rate (rate is multiplied by lr over the largest lr seen) and slows with the square root of
    the visits, as an average does. A score falls further than it rises: a wrong label should count for nothing, and
    no sample for everything.
    """

    def __init__(
        self, rate: float = 0.3, fall: float = 3.0, rise: float = 1.0, slowing: float = 0.5, memory: float = 0.99
    ) -> None:
        if not rate > 0 or not fall > 0 or not rise > 0 or not 0 <= memory < 1 or slowing < 0:
            raise BadInput(
                f"AdaptiveStep(rate={rate}, fall={fall}, rise={rise}, slowing={slowing}, memory={memory}): rate, fall "
                "and rise must be positive, slowing 0 or more, memory from 0 to below 1."
            )
        self.rate, self.fall, self.rise, self.slowing, self.memory = rate, fall, rise, slowing, memory
        self._running: Tensor | None = None  # [2]: decayed sums of the mean square and of 1
        self._top_lr = 0.0

    def __repr__(self) -> str:
        return (
            f"AdaptiveStep(rate={self.rate}, fall={self.fall}, rise={self.rise}, slowing={self.slowing}, "
            f"memory={self.memory})"
        )

    def move(self, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> Tensor:
        """Minus rate times the gradient per unit of weight over its running root mean square."""  # [B]
        counts = weights > 0
        per_weight = torch.where(counts, gradient / torch.where(counts, weights, 1.0), 0.0)
        # In float64: squares of small numbers must not vanish. In place: a captured graph replays the same memory.
        square = per_weight.double().square().sum() / counts.sum().clamp_min(1)
        if self._running is None:
            self._running = torch.zeros(2, dtype=torch.float64, device=gradient.device)
        self._running = self._running.to(gradient.device)  # a loaded state may lie elsewhere
        self._running.mul_(self.memory).add_(torch.stack([square, torch.ones_like(square)]), alpha=1 - self.memory)
        magnitude = (self._running[0] / self._running[1]).sqrt().to(per_weight.dtype)
        self._top_lr = max(self._top_lr, lr)
        follow = lr / self._top_lr if self._top_lr > 0 else 0.0
        rate = self.rate * follow / (1 + visits) ** self.slowing
        return -rate * per_weight / magnitude.clamp_min(torch.finfo(magnitude.dtype).tiny)

    def limit(self, scores: Tensor, start: float) -> Tensor:
        """At most fall below and rise above the start."""  # [B]
        return scores.clamp(start - self.fall, start + self.rise)

    def fresh(self) -> AdaptiveStep:
        """The same rule without memory."""
        return AdaptiveStep(self.rate, self.fall, self.rise, self.slowing, self.memory)

    def state_dict(self) -> dict[str, Any]:
        """Running magnitude and the largest lr."""
        return {"running": None if self._running is None else self._running.clone(), "top_lr": self._top_lr}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the memory back."""
        self._running = None if state["running"] is None else state["running"].clone()
        self._top_lr = float(state["top_lr"])
