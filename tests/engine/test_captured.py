"""Whole steps as a CUDA graph give what steps one by one give."""

import pytest
import torch

import fairweight as fw

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def train(captured, *, dropout=0.0, lrs=(0.05, 0.05), method="forml", steps=12):
    from fairweight.engine.captured import CapturedStep

    torch.manual_seed(0)
    model = fw.MLP(20, 5, (32, 32), dropout).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=lrs[0], momentum=0.9)
    n = 256
    inputs, labels = torch.randn(n, 20, device="cuda"), torch.arange(n, device="cuda") % 5
    exemplar = fw.Batch(torch.randn(20, 20, device="cuda"), torch.arange(20, device="cuda") % 5)
    reweighter = fw.FORML(model, n, tie="label", agreement_every=5) if method == "forml" else fw.Uniform(model, n)
    take = CapturedStep(reweighter, optimizer)
    sampler = fw.TrainSampler(n, 48, 0, device="cuda")  # the last batch of an epoch is smaller
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lrs[0] if step < steps // 2 else lrs[1]
        rows = sampler.rows(step)
        batch = fw.Batch(inputs[rows], labels[rows], rows=rows)
        record = take(batch, exemplar) if captured else reweighter.step(batch, exemplar, optimizer)
        losses.append(float(record.loss))
    return model, reweighter, losses, take


@pytest.mark.parametrize("method", ["forml", "uniform"])
@pytest.mark.parametrize("lrs", [(0.05, 0.05), (0.05, 0.005)])
def test_captured_equals_eager(method, lrs):
    a, b = train(False, method=method, lrs=lrs), train(True, method=method, lrs=lrs)
    assert b[3].refusal is None
    assert b[3].captures == len(set(lrs))
    torch.testing.assert_close(torch.tensor(a[2]), torch.tensor(b[2]), rtol=1e-5, atol=1e-6)
    for p, q in zip(a[0].parameters(), b[0].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    if method == "forml":
        torch.testing.assert_close(a[1].scores, b[1].scores, rtol=1e-4, atol=1e-5)
        assert a[1].steps == b[1].steps


def test_dropout_is_not_captured():
    assert "random numbers" in train(True, dropout=0.3)[3].refusal
