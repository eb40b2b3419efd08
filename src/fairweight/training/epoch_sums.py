"""Means over one epoch, summed on the device and read once at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.metagradient.model import unwrap
from fairweight.training._step_buffer import StepBuffer, Steps
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
        fields = ("loss", "losses", "weights", "correct", "objective", "agreement")
        self._steps = StepBuffer(self._add_up, fields)

    def clear(self) -> None:
        """Begin another epoch."""
        self._steps.clear()
        self._sums = torch.zeros_like(self._sums)
        self._by_group.zero_()
        self._bad = torch.full_like(self._bad, _NEVER)

    def add(self, step: int, batch: Batch, record: StepRecord) -> None:
        """One more step; nothing is read back."""
        self._steps.add(batch.compared(), record, step)

    def _add_up(self, steps: Steps) -> None:
        records, device = steps.records, self._sums.device
        known = [[len(r.losses), 1, r.objective is not None, r.agreement is not None] for r in records]
        sizes = torch.tensor([len(r.losses) for r in records])
        counts = sent(torch.tensor(known, dtype=torch.float64), device)  # [S, 4]
        step_of = sent(torch.arange(len(records)).repeat_interleave(sizes), device)  # [M]

        def by_step(values: Tensor) -> Tensor:  # [M] -> [S]
            return values.new_zeros(len(records)).index_add_(0, step_of, values)

        def of_steps(values: Sequence[Tensor | None]) -> Tensor:  # [S]
            nil = records[0].loss.new_zeros(())
            return torch.stack([nil if value is None else value for value in values]).double()

        losses = torch.cat([r.losses for r in records]).double()  # [M]
        squares = by_step(torch.cat([r.weights for r in records]).double().square())
        right = torch.cat([torch.zeros_like(r.losses) if r.correct is None else r.correct for r in records]).double()
        loss, objective = of_steps([r.loss for r in records]), of_steps([r.objective for r in records])
        columns = [
            loss,
            objective,
            of_steps([r.agreement for r in records]),
            by_step(losses),
            by_step(right),
            torch.where(squares > 0, 1 / (counts[:, 0] * squares), 0.0),
        ]
        numbers = torch.cat([counts, torch.stack(columns, dim=1)], dim=1)  # [S, sums]
        self._sums = torch.cat([self._sums[None], numbers]).cumsum(0)[-1]
        groups = torch.cat(steps.indices)  # [M]
        has_group = (groups >= 0).double()
        groups = groups.clamp(0, self._by_group.shape[1] - 1)
        self._by_group[0].index_add_(0, groups, losses * has_group)
        self._by_group[1].index_add_(0, groups, has_group)
        step_numbers = sent(torch.tensor(steps.numbers), device)
        finite = loss.isfinite() & objective.isfinite()
        self._bad = torch.minimum(self._bad, torch.where(finite, _NEVER, step_numbers).min())

    def bad_step(self) -> int | None:
        """The first step whose loss was not finite (waits for the device)."""
        self._steps.flush()
        found = int(self._bad)
        return None if found == _NEVER else found

    def summary(self) -> dict[str, Any]:
        """Means over the epoch so far."""
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


def finite(model: nn.Module) -> bool:
    """True if every parameter is a number: the update of an epoch's last step shows in no loss of it."""
    learned = [p.detach() for p in unwrap(model).parameters() if p.requires_grad and p.is_floating_point()]
    return not learned or bool(torch.stack([p.isfinite().all() for p in learned]).all())
