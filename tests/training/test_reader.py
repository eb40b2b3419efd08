"""A run that reads ahead is the run that does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairweight.data import Streamed
from fairweight.methods.forml import FORML
from fairweight.methods.jtt import JTT
from fairweight.methods.uniform import Uniform
from fairweight.models.mlp import MLP
from fairweight.training.batches import Batches
from fairweight.training.fit import fit
from fairweight.training.options import FitOptions
from fairweight.types import Batch


@pytest.fixture
def samples(tmp_path):
    """The same samples in memory and in a file."""
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 255, (50, 1, 2, 3), generator=stream, dtype=torch.uint8)
    np.save(tmp_path / "pixels.npy", pixels.numpy())
    places, labels = torch.randperm(50, generator=stream)[:41], torch.randint(0, 2, (41,), generator=stream)
    return Batch(pixels[places], labels), Streamed(tmp_path / "pixels.npy", places, labels)


class Counted(Batches):
    """Notes the steps whose rows were asked for."""

    def rows(self, step: int) -> torch.Tensor:
        vars(self).setdefault("asked", []).append(step)
        return torch.tensor([step % 41, (3 * step) % 41])


def test_every_step_gets_its_batch_and_nothing_is_read_beyond_the_epoch(samples):
    for kept in reversed(samples):
        uniform, options = Uniform(MLP(6, 2), 41), FitOptions(batch_size=2, drop_last=True)
        batches = Counted(kept, None, uniform, None, options, torch.device("cpu"))
        for step in [3, 4, 5, 6, 17, 18, 19, 20, 21, 22, 47, 48]:  # a run that goes on, and one that is moved
            expected = samples[0].take(torch.tensor([step % 41, (3 * step) % 41]))
            found = batches.train(step)
            assert torch.equal(found.inputs, expected.inputs)
            assert torch.equal(found.labels, expected.labels)
            assert max(batches.asked) // 20 == step // 20
        batches.close()


def trained(train, method=FORML):
    torch.manual_seed(0)
    model = torch.nn.Sequential(_Floats(), MLP(6, 2))
    exemplar = Batch(torch.arange(24, dtype=torch.uint8).reshape(4, 1, 2, 3), torch.tensor([0, 1, 0, 1]))
    reweighter = method(model, 41)
    fit(
        model, torch.optim.SGD(model.parameters(), 0.1), reweighter, train, exemplar, 3,
        options=FitOptions(batch_size=8, per_cell=2),
    )  # fmt: skip
    return torch.cat([p.flatten() for p in model.parameters()])


class _Floats(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.flatten(1).float() / 255


@pytest.mark.parametrize("method", [FORML, JTT])  # JTT draws other rows in later epochs
def test_a_streamed_run_equals_one_in_memory(samples, method):
    held, streamed = samples
    assert torch.equal(trained(held, method), trained(streamed, method))
