"""Means over one epoch, summed on the device and read once at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairweight.training._step_buffer import StepBuffer
from fairweight.types import Batch, StepRecord, sent

_COUNTS = ("samples", "steps", "steps_with_objective", "steps_with_agreement")
_SUMS = (*_COUNTS, "loss", "objective", "agreement", "sample_losses", "right", "effective_size")
_NEVER = torch.iinfo(torch.int64).max


class EpochSums:
    """Sums of the numbers of every step, and of the losses by group.

    Each sum adds step after step, in order, so that it does not depend on when the buffer was read.
    """

    def __init__(self, groups: int, device: torch.device) -> None:
        self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)
        self._by_group = torch.zeros(2, max(groups, 1), dtype=torch.float64, device=device)  # loss, samples
        self._bad = torch.full((), _NEVER, device=device)  # first step whose loss is not finite
        self._steps = StepBuffer(self._add_up, ("loss", "losses", "weights", "correct", "objective", "agreement"))

    def clear(self) -> None:
        self._steps.clear()
        self._sums, self._bad = torch.zeros_like(self._sums), torch.full_like(self._bad, _NEVER)
        self._by_group.zero_()

    def add(self, step: int, batch: Batch, record: StepRecord) -> None:
        self._steps.add(batch.compared(), record, step)

    def _add_up(self, indices: Sequence[Tensor], steps: Sequence[int], records: Sequence[StepRecord]) -> None:
        device = self._sums.device
        per_step = [[len(r.losses), 1, r.objective is not None, r.agreement is not None] for r in records]
        counts = sent(torch.tensor(per_step, dtype=torch.float64), device)  # [S, 4]
        sizes = torch.tensor([len(r.losses) for r in records])
        step_of = sent(torch.arange(len(records)).repeat_interleave(sizes), device)  # [M]
        zero = records[0].loss.new_zeros(())

        def by_step(values: Sequence[Tensor]) -> Tensor:  # [B] each -> [S]
            return counts.new_zeros(len(records)).index_add_(0, step_of, torch.cat(tuple(values)).double())

        def of_steps(values: Sequence[Tensor | None]) -> Tensor:  # [S]
            return torch.stack([zero if value is None else value for value in values]).double()

        loss, objective = of_steps([r.loss for r in records]), of_steps([r.objective for r in records])
        squares = by_step([torch.cat([r.weights for r in records]).double().square()])
        columns = [
            loss,
            objective,
            of_steps([r.agreement for r in records]),
            by_step([r.losses for r in records]),
            by_step([torch.zeros_like(r.losses) if r.correct is None else r.correct for r in records]),
            torch.where(squares > 0, 1 / (counts[:, 0] * squares), 0.0),
        ]
        numbers = torch.cat([counts, torch.stack(columns, dim=1)], dim=1)  # [S, sums]
        self._sums = torch.cat([self._sums[None], numbers]).cumsum(0)[-1]
        groups = torch.cat(tuple(indices))  # [M]
        known_group = (groups >= 0).double()
        groups = groups.clamp(0, self._by_group.shape[1] - 1)
        self._by_group[0].index_add_(0, groups, torch.cat([r.losses for r in records]).double() * known_group)
        self._by_group[1].index_add_(0, groups, known_group)
        finite = loss.isfinite() & objective.isfinite()
        self._bad = torch.minimum(self._bad, torch.where(finite, _NEVER, sent(torch.tensor(steps), device)).min())

    def bad_step(self) -> int | None:
        """The first step whose loss was not finite (waits for the device)."""
        self._steps.flush()
        step = int(self._bad)
        return None if step == _NEVER else step

    def summary(self) -> dict[str, Any]:
        self._steps.flush()
        total = dict(zip(_SUMS, self._sums.tolist(), strict=True))
        steps, samples = max(total["steps"], 1.0), max(total["samples"], 1.0)
        means: dict[str, Any] = {
            "loss": total["loss"] / steps,
            "mean_loss": total["sample_losses"] / samples,
            "accuracy": total["right"] / samples,
            "effective_size": total["effective_size"] / steps,
        }
        for name in ("objective", "agreement"):
            if total[f"steps_with_{name}"]:
                means[name] = total[name] / total[f"steps_with_{name}"]
        losses, counts = self._by_group.tolist()
        means["group_losses"] = {str(g): loss / n for g, (loss, n) in enumerate(zip(losses, counts, strict=True)) if n}
        return means

    def state_dict(self) -> dict[str, Any]:
        self._steps.flush()
        return {"sums": self._sums, "by_group": self._by_group, "bad_step": self._bad}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self._steps.clear()
        self._sums, self._by_group, self._bad = saved["sums"], saved["by_group"].clone(), saved["bad_step"]
