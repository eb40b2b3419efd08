"""What every method makes of inputs that are less usual: autocast, batches of one, rows drawn twice, one logit."""

from __future__ import annotations

import pytest
import torch
from tests.contract.test_every_method import CASES, NAMES, WIDTH, N, Run, batch_of, whole_set
from torch import nn

from fairweight import catalog
from fairweight.training.predict import predict
from fairweight.types import Batch


@pytest.mark.parametrize(("name", "options"), CASES)
def test_weights_are_shares_under_autocast(name, options):
    run = Run(name, options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            weights = run.step().weights
            assert weights.dtype == torch.float32
            assert bool((weights >= 0).all())
            assert float(weights.sum()) == pytest.approx(1.0, abs=1e-5) or not bool(weights.any())
    assert all(p.dtype == torch.float32 and bool(p.isfinite().all()) for p in run.model.parameters())


@pytest.mark.parametrize(("name", "options"), CASES)
def test_batches_of_one_and_rows_drawn_twice(name, options):
    run = Run(name, options)
    run.model.eval()  # batch statistics of one sample are none
    alone = run.step(lambda batch: batch.take(torch.tensor([3]))).weights
    assert alone.tolist() in ([1.0], [0.0])
    twice = run.step(lambda batch: batch.take(torch.tensor([0, 1, 0, 2, 1]))).weights
    torch.testing.assert_close(twice[[0, 1]], twice[[2, 4]])
    assert float(twice.sum()) == pytest.approx(1.0, abs=1e-6) or not bool(twice.any())


@pytest.mark.parametrize("name", NAMES)
def test_one_logit_for_two_classes(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))
    whole = whole_set()
    train = Batch(whole.inputs, whole.labels % 2, whole.groups)
    method = catalog.load("methods", name)(model, N)
    method.begin(train, train)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        weights = method.step(batch_of(train, step), train, optimizer).weights
        assert weights.shape == (12,)
        assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6) or not bool(weights.any())
        if step == 2:
            method.on_epoch(1, lambda samples: predict(model, samples))
