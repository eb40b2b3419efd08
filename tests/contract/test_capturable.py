"""A step with check=False asks nothing of the host, so that a CUDA graph can hold it; no GPU is needed to see that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tests.contract.test_every_method import CASES, Run, batch_of
from torch.overrides import TorchFunctionMode

import fairweight
from fairweight.methods._cells import count_cells
from fairweight.methods.score_step import AdaptiveStep

HERE = str(Path(fairweight.__file__).parent)
# They copy a value to the device, or wait for one from it: neither can be captured.
HOST = {"tensor", "as_tensor", "item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__", "nonzero"}
TRACED = [
    pytest.param("forml", options, id=f"forml-{'-'.join(options)}")
    for options in (
        {"compile": "eager"},
        {"compile": "eager", "tie": "label"},
        {"compile": "eager", "scope": "head"},
        {"compile": "eager", "gradient": "forward", "agreement_every": 1, "score_step": AdaptiveStep(heed=1.0)},
        {"gradient": "forward", "every": 2},
        {"gradient": "forward", "agreement_every": 1},
        {"gradient": "difference"},
    )
]


class Asked(TorchFunctionMode):
    """Notes what fairweight itself asks of the host; torch's optimizers count their steps where they were told to."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        caller = sys._getframe(1)
        if name in HOST and caller.f_code.co_filename.startswith(HERE):
            self.calls.append(f"{name} in {caller.f_code.co_name}")
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [*CASES, *TRACED])
def test_a_step_asks_nothing_of_the_host_also_at_a_new_learning_rate(name, options):
    run = Run(name, options)
    for _ in range(4):
        run.step()
    run.optimizer.param_groups[0]["lr"] *= 0.5  # as a schedule does: the next step is captured anew, without a trial
    with Asked() as asked:
        run.method.step(batch_of(run.train, run.done), run.exemplar, run.optimizer, check=False)
    assert asked.calls == []


def test_the_net_is_fine_enough():
    with Asked() as asked:
        torch.ones(2).sum().item()  # the test itself is no part of fairweight
    assert asked.calls == []
    with Asked() as asked:
        count_cells(torch.arange(3), None)
    assert "cpu in count_cells" in asked.calls
