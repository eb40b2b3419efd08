"""Sums over one epoch, on the device, read once at its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairweight.types import Batch, StepRecord, sent

# loss, plain loss, right, samples, effective size, objective, steps with an objective, steps, agreement, looks
_NUMBERS = 10
_AT_ONCE = 32  # steps that are kept as they are before they are added up: a kernel for many instead of many kernels


class _Step(NamedTuple):
    """What is kept of one step."""

    number: int
    loss: Tensor  # []
    losses: Tensor  # [B]
    weights: Tensor  # [B]
    correct: Tensor | None  # [B]
    compared: Tensor  # [B]
    objective: Tensor | None  # []
    agreement: Tensor | None  # []


class EpochSums:
    """Running sums of a StepRecord's numbers and of the losses by group."""

    def __init__(self, groups: int, device: torch.device) -> None:
        self._sums = torch.zeros(_NUMBERS, dtype=torch.float64, device=device)
        self._by_group = torch.zeros(2, max(groups, 1), dtype=torch.float64, device=device)  # loss, samples
        self._bad = torch.full((), -1, dtype=torch.int64, device=device)  # first step whose loss is not finite
        self._waiting: list[_Step] = []

    def add(self, step: int, batch: Batch, record: StepRecord) -> None:
        """One more step; nothing is read back."""
        own = torch.clone if record.loss.device.type == "cuda" else _as_it_is  # a replay overwrites its record
        self._waiting.append(
            _Step(
                step,
                own(record.loss),
                own(record.losses),
                own(record.weights),
                None if record.correct is None else own(record.correct),
                batch.compared(),
                None if record.objective is None else own(record.objective),
                None if record.agreement is None else own(record.agreement),
            )
        )
        if len(self._waiting) >= _AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        kinds: dict[tuple[Any, ...], list[_Step]] = {}
        for step in waiting:
            alike = (len(step.losses), step.correct is None, step.objective is None, step.agreement is None)
            kinds.setdefault(alike, []).append(step)
        for steps in kinds.values():
            self._add_alike(steps)

    def _add_alike(self, steps: list[_Step]) -> None:
        """Steps with batches of one size that say the same things."""
        nil = self._sums.new_zeros(())

        def total(values: list[Tensor | None]) -> Tensor:
            known = [value for value in values if value is not None]
            return torch.stack(known).sum(dtype=torch.float64) if known else nil

        size, count = len(steps[0].losses), len(steps)
        losses = torch.stack([s.losses for s in steps]).double()  # [S, B]
        squares = torch.stack([s.weights for s in steps]).double().square().sum(dim=1)  # [S]
        effective = torch.where(squares > 0, 1 / (size * squares), 0.0).sum()
        has_objective, looked = steps[0].objective is not None, steps[0].agreement is not None
        known_numbers = torch.tensor([size * count, count * has_objective, count, count * looked], dtype=torch.float64)
        seen, with_objective, taken, looks = sent(known_numbers, self._sums.device)
        self._sums += torch.stack(
            [
                total([s.loss for s in steps]),
                losses.sum(),
                total([s.correct for s in steps]),
                seen,
                effective,
                total([s.objective for s in steps]),
                with_objective,
                taken,
                total([s.agreement for s in steps]),
                looks,
            ]
        )
        compared = torch.cat([s.compared for s in steps])  # [S B]
        weight = (compared >= 0).double()
        index = compared.clamp(0, self._by_group.shape[1] - 1)
        self._by_group.index_add_(1, index, torch.stack([losses.flatten() * weight, weight]))
        finite = torch.isfinite(torch.stack([s.loss for s in steps]))  # [S]
        if has_objective:
            finite = finite & torch.isfinite(torch.stack([s.objective for s in steps if s.objective is not None]))
        numbers = sent(torch.tensor([s.number for s in steps]), finite.device)
        first = torch.where(finite, torch.iinfo(torch.int64).max, numbers).min()
        earlier = torch.where(self._bad >= 0, torch.minimum(self._bad, first), first)
        self._bad = torch.where(finite.all(), self._bad, earlier)

    def bad_step(self) -> int | None:
        """The first step whose loss was not finite (waits for the device)."""
        self._add_up()
        found = int(self._bad)
        return None if found < 0 else found

    def summary(self) -> dict[str, Any]:
        """Means over the epoch so far."""
        self._add_up()
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

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the steps that are not in them yet: a run that goes on adds them up as it would have."""
        waiting = [list(step) for step in self._waiting]
        return {"sums": self._sums, "by_group": self._by_group, "bad": self._bad, "waiting": waiting}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Put the sums back."""
        self._sums.copy_(saved["sums"])
        self._by_group.copy_(saved["by_group"])
        self._bad = saved["bad"].to(self._bad.device).clone()
        self._waiting = [_Step(*step) for step in saved["waiting"]]


def _as_it_is(value: Tensor) -> Tensor:
    return value
