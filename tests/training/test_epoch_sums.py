"""Sums over an epoch, added up many steps at a time, are those of step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairweight.training import _step_buffer
from fairweight.training.epoch_sums import EpochSums
from fairweight.types import Batch, StepRecord


def steps(count: int) -> list[tuple[Batch, StepRecord]]:
    stream = torch.Generator().manual_seed(1)
    made = []
    for k in range(count):
        size = 5 if k % 10 == 9 else 8  # the last batch of an epoch is smaller
        losses = torch.rand(size, generator=stream)
        weights = torch.softmax(torch.randn(size, generator=stream), dim=0)
        labels = torch.randint(0, 3, (size,), generator=stream)
        groups = torch.randint(-1, 2, (size,), generator=stream)  # -1: not known
        record = StepRecord(
            loss=(weights * losses).sum(),
            losses=losses,
            weights=weights,
            correct=losses < 0.5,
            objective=losses.max() if k % 3 else None,
            agreement=losses.min() if k % 7 == 0 else None,
        )
        made.append((Batch(torch.zeros(size, 1), labels, groups), record))
    return made


def one_by_one(taken: list[tuple[Batch, StepRecord]]) -> dict[str, Any]:
    """The slow twin, in Python's own numbers."""
    samples = sum(len(r.losses) for _, r in taken)
    found: dict[str, Any] = {
        "loss": sum(float(r.loss) for _, r in taken) / len(taken),
        "mean_loss": sum(float(r.losses.double().sum()) for _, r in taken) / samples,
        "accuracy": sum(int(r.correct.sum()) for _, r in taken if r.correct is not None) / samples,
        "effective_size": sum(float(r.effective_size) for _, r in taken) / len(taken),
    }
    for name in ("objective", "agreement"):
        values = [float(getattr(r, name)) for _, r in taken if getattr(r, name) is not None]
        found[name] = sum(values) / len(values)
    by_group: dict[str, list[float]] = {}
    for batch, record in taken:
        assert batch.groups is not None
        for group, loss in zip(batch.groups.tolist(), record.losses.tolist(), strict=True):
            if group >= 0:
                by_group.setdefault(str(group), []).append(loss)
    found["group_losses"] = {g: sum(values) / len(values) for g, values in sorted(by_group.items())}
    return found


def summed(taken: list[tuple[Batch, StepRecord]]) -> EpochSums:
    sums = EpochSums(2, torch.device("cpu"))
    for k, (batch, record) in enumerate(taken):
        sums.add(k, batch, record)
    return sums


@pytest.mark.parametrize("at_once", [1, 20, 10_000])
@pytest.mark.parametrize("count", [1, 8, 32, 33, 100])
def test_many_at_once_equals_one_by_one(count: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_step_buffer, "SAMPLES", at_once)
    taken = steps(count)
    found, expected = summed(taken).summary(), one_by_one(taken) if count > 1 else None
    if expected is None:
        assert found["loss"] == pytest.approx(float(taken[0][1].loss))
        return
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6), key


@pytest.mark.parametrize("kept", [1, 45, 69])
def test_a_restored_sum_goes_on_bit_for_bit(kept: int) -> None:
    taken = steps(70)
    whole, first = summed(taken), summed(taken[:kept])
    second = EpochSums(2, torch.device("cpu"))
    second.load_state_dict(first.state_dict())  # reads what the whole still holds
    for k, (batch, record) in enumerate(taken[kept:], start=kept):
        second.add(k, batch, record)
    assert second.summary() == whole.summary()


@pytest.mark.parametrize("bad", [0, 31, 32, 69])
def test_the_first_step_that_is_not_finite_is_named(bad: int) -> None:
    taken = steps(70)
    for k in (bad, min(bad + 9, 69)):  # a later one of another batch size does not hide it
        taken[k][1].loss.fill_(float("nan"))
    assert summed(taken).bad_step() == bad
    assert summed(steps(70)).bad_step() is None
