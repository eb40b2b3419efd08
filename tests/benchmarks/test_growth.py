"""A hundred times the scores are no more work. What a step reads and writes is counted: clocks vary with the load."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LOOKUPS = {torch.ops.aten.index, torch.ops.aten.index_add_, torch.ops.aten.index_put_}  # touch the rows named alone


class Numbers(TorchDispatchMode):
    """Counts the numbers that operations read and write."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        done = func(*args, **(kwargs or {}))
        looked_up = args[0] if func.overloadpacket in LOOKUPS else None
        handled = (x for x in tree_leaves((args, kwargs, done)) if isinstance(x, torch.Tensor) and x is not looked_up)
        self.count += sum(x.numel() for x in handled)
        return done


@pytest.mark.slow  # it loads torch's forward-mode formulas
def test_work_does_not_grow_with_the_number_of_scores(script, monkeypatch):
    def counted(step, on_gpu):
        with Numbers() as numbers:
            step()
        return float(numbers.count)

    module = script("growth")
    monkeypatch.setattr(module, "BATCHES", ())
    monkeypatch.setattr(module, "timed", counted)
    few, many = module.growth("cpu", repeats=2, samples=(10_000, 1_000_000))["samples"]
    assert 0 < many["median_ms"] == few["median_ms"]
