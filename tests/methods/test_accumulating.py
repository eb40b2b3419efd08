"""Micro-batches inside `accumulating` make the step of one batch that holds them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

import fairweight as fw
from fairweight.errors import BadInput
from fairweight.types import Batch, side_by_side

N, E = 24, 16
OBJECTIVE = fw.MeanLoss() + fw.LossVariance()
MADE: dict[str, Callable[[nn.Module], fw.Reweighter]] = {
    "forward": lambda m: fw.FORML(m, N, OBJECTIVE, gradient="forward", agreement_every=2),
    "per-layer": lambda m: fw.FORML(m, N, fw.MaxLossDiscrepancy(), gradient="per-layer", agreement_every=2),
    "double-backward": lambda m: fw.FORML(m, N, fw.EqualOddsLoss(), gradient="double-backward"),
    "every second": lambda m: fw.FORML(m, N, OBJECTIVE, every=2),
    "at rest": lambda m: fw.FORML(m, N, OBJECTIVE, None),
    "ties": lambda m: fw.FORML(m, N, OBJECTIVE, tie="cell"),
    "logit scale": lambda m: fw.FORML(m, N, OBJECTIVE, form="logit-scale", gradient="forward"),
    "l2rw": lambda m: fw.L2RW(m, N),
    "meta-weight-net": lambda m: fw.MetaWeightNet(m, N, seed=1, hidden=8, detached=False),
    "group dro": lambda m: fw.GroupDRO(m, N),
    "focal": lambda m: fw.Focal(m, N),
    "uniform": lambda m: fw.Uniform(m, N),
}


def _data() -> tuple[Batch, Batch]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N + E, 5, generator=g, dtype=torch.float64)
    labels, groups = torch.randint(3, (N + E,), generator=g), torch.randint(2, (N + E,), generator=g)
    whole = Batch(x, labels, groups, torch.arange(N + E))
    return whole.take(torch.arange(N)), whole.take(torch.arange(N, N + E))


def _net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def _numbers(model: nn.Module, method: fw.Reweighter, record: fw.StepRecord) -> list[Tensor]:
    scores = method.scores
    return [*(p.detach() for p in model.parameters()), *([] if scores is None else [scores]), record.loss]


@pytest.mark.parametrize("name", MADE)
def test_equals_one_large_batch(name: str) -> None:
    train, exemplar = _data()
    found = []
    for parts in (1, 3):
        model = _net()
        method, optimizer = MADE[name](model), torch.optim.SGD(model.parameters(), lr=0.2)
        method.begin(train, exemplar)
        for step in range(6):
            rows = torch.randperm(N, generator=torch.Generator().manual_seed(step))[:13]
            sizes = rows.tensor_split(parts)
            halves = [exemplar.take(h) for h in torch.arange(E).tensor_split(parts)]
            optimizer.zero_grad()
            if parts == 1:
                record = method.backward(train.take(rows), exemplar, optimizer)
            else:
                with method.accumulating(3):
                    for micro, half in zip(sizes, halves, strict=True):
                        record = method.backward(train.take(micro), half, optimizer)
            optimizer.step()
        found.append(_numbers(model, method, record))
        assert method.steps == 6
    for one, several in zip(*found, strict=True):
        torch.testing.assert_close(several, one, rtol=1e-12, atol=1e-12)


def test_nothing_moves_before_the_last_micro_batch() -> None:
    train, exemplar = _data()
    model = _net()
    forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
    with forml.accumulating(2):
        record = forml.backward(train.take(torch.arange(6)), exemplar, optimizer)
        assert record.mode == "waits for 1 more micro-batches"
        assert forml.scores.abs().max() == 0
        assert all(p.grad is None for p in model.parameters())
        forml.backward(train.take(torch.arange(6, 12)), exemplar, optimizer)
    assert forml.scores[:12].abs().min() > 0
    assert forml.scores[12:].abs().max() == 0
    assert forml.steps == 1


def test_what_is_left_makes_the_last_step() -> None:
    train, exemplar = _data()
    results = []
    for count in (2, 5):
        model = _net()
        forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
        with forml.accumulating(count):
            for rows in torch.arange(12).tensor_split(2):
                forml.backward(train.take(rows), exemplar, optimizer)
        results.append([p.grad for p in model.parameters()])
    for one, other in zip(*results, strict=True):
        assert one is not None
        assert torch.equal(one, other)


def test_dropout_sees_the_same_masks_in_every_pass() -> None:
    """With masks that fall alike, the gradient is that of the loss that the record names."""
    train, _ = _data()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3)).double()
    uniform, optimizer = fw.Uniform(model, N), torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    with uniform.accumulating(2):
        for rows in torch.arange(12).tensor_split(2):
            record = uniform.backward(train.take(rows), None, optimizer)
    torch.manual_seed(5)
    logits = torch.cat([model(train.inputs[rows]) for rows in torch.arange(12).tensor_split(2)])  # type: ignore[index]
    loss = nn.functional.cross_entropy(logits, train.labels[:12])
    torch.testing.assert_close(record.loss, loss.detach(), rtol=1e-12, atol=1e-12)
    for p, slope in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
        torch.testing.assert_close(p.grad, slope, rtol=1e-10, atol=1e-12)


def test_step_and_nesting_are_refused() -> None:
    train, exemplar = _data()
    model = _net()
    forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
    with forml.accumulating(2), pytest.raises(BadInput, match="backward"):
        forml.step(train.take(torch.arange(6)), exemplar, optimizer)
    with forml.accumulating(2), pytest.raises(BadInput, match="already"), forml.accumulating(3):
        pass
    with pytest.raises(BadInput, match="1 or more"), forml.accumulating(0):
        pass
    forml.step(train.take(torch.arange(6)), exemplar, optimizer)


def test_exemplars_that_do_not_fit_are_refused() -> None:
    _, exemplar = _data()
    with pytest.raises(BadInput, match="as one batch"):
        side_by_side([exemplar, Batch(torch.zeros(2, 7), torch.zeros(2, dtype=torch.int64), exemplar.groups[:2])])  # type: ignore[index]


def test_grad_scaler_scales_the_gradient_alone() -> None:
    train, exemplar = _data()
    grads, scores = [], []
    for scaled in (False, True):
        model = _net()
        forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if scaled else None
        forml.backward(train, exemplar, optimizer, scaler=scaler, scale=0.5)
        if scaler is not None:
            scaler.unscale_(optimizer)
        grads.append([p.grad for p in model.parameters()])
        scores.append(forml.scores)
    torch.testing.assert_close(*scores, rtol=1e-12, atol=1e-14)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    before = [p.detach().clone() for p in model.parameters()]
    yield
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_backward_never_clears_or_steps() -> None:
    train, exemplar = _data()
    model = _net()
    forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
    for p in model.parameters():
        p.grad = torch.full_like(p, 1000.0)
    with _unchanged(model):
        forml.backward(train, exemplar, optimizer)
    assert all(p.grad is not None and float(p.grad.min()) > 900 for p in model.parameters())
