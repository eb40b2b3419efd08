"""When a run is compiled, and how its model lies in memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.methods.uniform import Uniform
from fairweight.runs.build import compiles, laid_out

CONVOLUTIONS = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("method", "model", "device", "steps", "expected"),
    [
        (FORML, CONVOLUTIONS, "cuda", 10_000, True),
        (FORML, CONVOLUTIONS, "cuda:1", 10_000, True),
        (FORML, CONVOLUTIONS, "cuda", 3_000, False),
        (FORML, CONVOLUTIONS, "cpu", 10_000, False),
        (FORML, nn.Linear(4, 2), "cuda", 100_000, False),
        (Uniform, CONVOLUTIONS, "cuda", 10_000, False),
        (Uniform, CONVOLUTIONS, "cuda", 78_000, True),
    ],
)
def test_long_runs_of_convolutions_on_a_gpu_are_compiled(
    method: type[Reweighter], model: nn.Module, device: str, steps: int, expected: bool
) -> None:
    assert compiles(method(model, 8), device, steps) is expected


def test_on_a_cpu_the_layout_stays() -> None:
    model = nn.Conv2d(3, 4, 3)
    assert laid_out(model, "cpu") is model
    assert model.weight.is_contiguous(memory_format=torch.contiguous_format)
