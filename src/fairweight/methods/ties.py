"""Scores that samples share: one per label, group or cell, learned beside each sample's own."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.methods.score_step import ScoreStep
from fairweight.types import Batch

Tie = Literal["label", "group", "cell"]
WIDTH = 1024  # labels, or groups with the unknown one, that a tie can tell apart
GROUPS = 64  # groups with the unknown one, within each label of a cell


class TiedScores:
    """One score per label, group or cell; a sample's tie is remembered when it is first seen."""

    def __init__(
        self, tie: Tie, num_samples: int, step: ScoreStep, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        self.tie = tie
        self.step = step.fresh()
        self.scores = torch.zeros(WIDTH if tie != "cell" else WIDTH * GROUPS, dtype=dtype, device=device)
        self.index = torch.full((num_samples,), -1, dtype=torch.int32, device=device)  # [N]

    def of(self, batch: Batch) -> Tensor:
        """Which score each batch member shares."""  # [B]
        if self.tie == "label":
            return batch.labels
        assert batch.groups is not None, "the method needs train groups"
        shifted = batch.groups.clamp_min(-1) + 1  # unknown groups share an entry of their own, the first
        return shifted if self.tie == "group" else batch.labels * GROUPS + shifted

    def check(self, batch: Batch) -> None:
        """Refuse labels or groups that there is no score for (reads the batch: a wait on a GPU)."""
        index = self.of(batch)
        if self.tie == "cell" and batch.groups is not None and int(batch.groups.max()) + 1 >= GROUPS:
            raise BadInput(f"tie='cell' tells {GROUPS - 1} groups apart; merge groups, or use tie='group'.")
        if int(index.max()) >= len(self.scores):
            raise BadInput(f"tie={self.tie!r} tells {len(self.scores)} values apart; merge labels or groups.")

    def move(self, index: Tensor, gradient: Tensor, weights: Tensor, lr: float, visits: Tensor) -> None:
        """Move each shared score by what its members in the batch say together."""
        total = torch.zeros_like(self.scores).index_add(0, index, gradient)
        # Members that cancel, as all of a batch do (its gradient sums to 0), leave rounding; the step divides by its
        # own size, and would make a move of it.
        parts = torch.zeros_like(self.scores).index_add(0, index, gradient.abs())
        rounding = len(index) * torch.finfo(gradient.dtype).eps * parts
        total = torch.where(total.abs() > rounding, total, 0.0)
        weight = torch.zeros_like(self.scores).index_add(0, index, weights)
        moved = self.step.move(total, weight, lr, visits)  # 0 where the batch has no such sample
        self.scores.copy_(self.step.limit(self.scores + moved, 0.0))

    def per_sample(self) -> Tensor:
        """The shared part of every sample's score; 0 for a sample not seen yet."""  # [N]
        shared = self.scores[self.index.clamp_min(0).long()]
        return torch.where(self.index >= 0, shared, torch.zeros_like(shared))

    def state_dict(self) -> dict[str, Any]:
        """All that was learned."""
        kept = {"scores": self.scores.clone(), "index": self.index.clone()}
        return {"tie": self.tie, **kept, "step": self.step.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        self.scores.copy_(state["scores"])
        self.index.copy_(state["index"])
        self.step.load_state_dict(state["step"])
