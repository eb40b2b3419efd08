"""When a run is compiled, and how its model lies in memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairweight.experiments.speed import compiles, laid_out

CONVOLUTIONS = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(2))


@pytest.mark.parametrize(
    ("model", "device", "steps", "expected"),
    [
        (CONVOLUTIONS, "cuda", 5_000, True),
        (CONVOLUTIONS, "cuda:1", 5_000, True),
        (CONVOLUTIONS, "cuda", 100, False),
        (CONVOLUTIONS, "cpu", 5_000, False),
        (nn.Linear(4, 2), "cuda", 100_000, False),
    ],
)
def test_long_runs_of_convolutions_on_a_gpu_are_compiled(
    model: nn.Module, device: str, steps: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRWEIGHT_COMPILE", raising=False)
    assert compiles(model, device, steps) is expected
    monkeypatch.setenv("FAIRWEIGHT_COMPILE", "0")
    assert not compiles(model, device, steps)
    monkeypatch.setenv("FAIRWEIGHT_COMPILE", "1")
    assert compiles(model, device, steps)


def test_on_a_cpu_the_layout_stays() -> None:
    model = nn.Conv2d(3, 4, 3)
    assert laid_out(model, "cpu") is model
    assert model.weight.is_contiguous(memory_format=torch.contiguous_format)
