"""Sums over one epoch, on the device, read once at its end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairweight.types import Batch, StepRecord

# loss, plain loss, right, samples, effective size, objective, steps with an objective, steps, agreement, looks
_NUMBERS = 10


class EpochSums:
    """Running sums of a StepRecord's numbers and of the losses by group."""

    def __init__(self, groups: int, device: torch.device) -> None:
        self._sums = torch.zeros(_NUMBERS, dtype=torch.float64, device=device)
        self._by_group = torch.zeros(2, max(groups, 1), dtype=torch.float64, device=device)  # loss, samples
        self._bad = torch.full((), -1, dtype=torch.int64, device=device)  # first step whose loss is not finite

    def add(self, step: int, batch: Batch, record: StepRecord) -> None:
        """One more step; nothing is read back."""
        one = self._sums.new_ones(())
        nil = self._sums.new_zeros(())
        size = len(record.losses)
        has_objective, looked = record.objective is not None, record.agreement is not None
        values = [
            record.loss.double(),
            record.losses.double().sum(),
            nil if record.correct is None else record.correct.double().sum(),
            one * size,
            record.effective_size.double(),
            nil if record.objective is None else record.objective.double(),
            one if has_objective else nil,
            one,
            nil if record.agreement is None else record.agreement.double(),
            one if looked else nil,
        ]
        self._sums += torch.stack(values)
        compared = batch.compared()
        known = compared >= 0
        index = compared.clamp(0, self._by_group.shape[1] - 1)
        weight = known.double()
        self._by_group.index_add_(1, index, torch.stack([record.losses.double() * weight, weight]))
        finite = torch.isfinite(record.loss)
        if record.objective is not None:
            finite = finite & torch.isfinite(record.objective)
        self._bad = torch.where(finite | (self._bad >= 0), self._bad, torch.full_like(self._bad, step))

    def bad_step(self) -> int | None:
        """The first step whose loss was not finite (waits for the device)."""
        found = int(self._bad)
        return None if found < 0 else found

    def summary(self) -> dict[str, Any]:
        """Means over the epoch so far."""
        s = self._sums.tolist()
        steps, samples = max(s[7], 1.0), max(s[3], 1.0)
        out: dict[str, Any] = {
            "loss": s[0] / steps,
            "mean_loss": s[1] / samples,
            "accuracy": s[2] / samples,
            "effective_size": s[4] / steps,
        }
        if s[6]:
            out["objective"] = s[5] / s[6]
        if s[9]:
            out["agreement"] = s[8] / s[9]
        losses, counts = self._by_group.tolist()
        out["group_losses"] = {str(g): loss / n for g, (loss, n) in enumerate(zip(losses, counts, strict=True)) if n}
        return out

    def state_dict(self) -> dict[str, Tensor]:
        """The sums."""
        return {"sums": self._sums, "by_group": self._by_group, "bad": self._bad}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Put the sums back."""
        self._sums.copy_(saved["sums"])
        self._by_group.copy_(saved["by_group"])
        self._bad = saved["bad"].to(self._bad.device).clone()
