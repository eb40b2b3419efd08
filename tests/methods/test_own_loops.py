"""A loop of one's own: what people put between backward and step, each beside the same training without it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import fairweight as fw
from fairweight.errors import FairweightError

N = 48
Finish = Callable[[nn.Module, torch.optim.Optimizer], None]


def data() -> tuple[fw.Batch, fw.Batch]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N + 24, 6, generator=g, dtype=torch.float64)
    labels, groups = torch.randint(3, (N + 24,), generator=g), torch.randint(2, (N + 24,), generator=g)
    return fw.Batch(x[:N], labels[:N], groups[:N], torch.arange(N)), fw.Batch(x[N:], labels[N:], groups[N:])


class Net(nn.Module):
    """Two blocks, the first of which may be checkpointed."""

    def __init__(self, kind: str = "plain") -> None:
        super().__init__()
        self.kind = kind
        self.first, self.last = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.GELU()), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "plain":
            return self.last(self.first(x))
        x = x.requires_grad_() if self.kind == "reentrant" else x  # that kind must see an input with a gradient
        return self.last(checkpoint(self.first, x, use_reentrant=self.kind == "reentrant"))


def made(kind: str = "plain") -> nn.Module:
    torch.manual_seed(0)
    return Net(kind).double()


def trained(
    model: nn.Module,
    finish: Finish | None = None,
    *,
    scaler: Any = None,
    method: Callable[[nn.Module], fw.Reweighter] | None = None,
    clip_norm: float | None = None,
) -> tuple[nn.Module, fw.Reweighter]:
    """Six steps of backward and what comes after it, or of `step` alone."""
    torch.manual_seed(1)
    train, held = data()
    forml = fw.FORML(model, N, fw.MeanLoss() + fw.LossVariance()) if method is None else method(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(6):
        batch = train.take(torch.arange(16) + 16 * (step % 3))
        if finish is None:
            forml.step(batch, held, optimizer, clip_norm=clip_norm)
            continue
        optimizer.zero_grad()
        forml.backward(batch, held, optimizer, scaler=scaler)
        finish(model, optimizer)
    return model, forml


def same(one: tuple[nn.Module, fw.Reweighter], other: tuple[nn.Module, fw.Reweighter], tolerance: float = 0.0) -> None:
    assert one[1].scores is not None
    assert other[1].scores is not None
    assert float(one[1].scores.std()) > 0.01
    torch.testing.assert_close(other[1].scores, one[1].scores, rtol=tolerance, atol=tolerance)
    for (name, a), (_, b) in zip(one[0].named_parameters(), other[0].named_parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, msg=name)


def test_gradient_clipping_is_that_of_the_step() -> None:
    def clipped(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        assert float(nn.utils.clip_grad_norm_(model.parameters(), 0.05)) > 0.05
        optimizer.step()

    same(trained(made(), clip_norm=0.05), trained(made(), clipped))


def test_an_average_of_the_weights_follows_the_steps_alone() -> None:
    kept: list[dict[str, Tensor]] = []
    model = made()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))

    def averaged(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()
        average.update_parameters(model)
        kept.append(copy.deepcopy(dict(model.named_parameters())))

    same(trained(made()), trained(model, averaged))
    for name, p in average.module.named_parameters():
        expected = kept[0][name]
        for later in kept[1:]:
            expected = 0.9 * expected + 0.1 * later[name]
        torch.testing.assert_close(p, expected, rtol=1e-12, atol=1e-12)


def test_a_grad_scaler_changes_nothing_but_rounding() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def scaled(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1e6)
        scaler.step(optimizer)
        scaler.update()

    same(trained(made()), trained(made(), scaled, scaler=scaler), 1e-12)


def test_a_scale_that_overflows_skips_the_step_and_the_scores() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    train, held = data()
    model = made().float()
    forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.1)
    large = [fw.Batch(b.inputs.float() * 1e3, b.labels, b.groups, b.rows) for b in (train, held)]  # type: ignore[union-attr]
    forml.backward(*large, optimizer, scaler=scaler)
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), made().float().parameters(), strict=True))
    assert float(forml.scores.abs().max()) == 0
    assert scaler.get_scale() == 2.0**126


@pytest.mark.parametrize("gradient", ["auto", "forward"])
def test_checkpointed_layers_give_the_same_numbers(gradient: str) -> None:
    how = {"method": lambda m: fw.FORML(m, N, gradient=gradient)}
    same(trained(made(), **how), trained(made("non-reentrant"), **how), 1e-12)


def test_reentrant_checkpointing_is_refused_where_gradients_are_asked_for_and_right_elsewhere() -> None:
    with pytest.raises(FairweightError, match="use_reentrant=False"):
        trained(made("reentrant"))
    plain, _ = trained(made(), method=lambda m: fw.Uniform(m, N))
    again, _ = trained(made("reentrant"), method=lambda m: fw.Uniform(m, N))
    for a, b in zip(plain.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


def test_lora_of_peft_moves_adapters_alone_and_exactly() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")

    def adapted() -> nn.Module:
        torch.manual_seed(2)
        found: nn.Module = peft.get_peft_model(
            made(), peft.LoraConfig(r=2, target_modules=["first.0", "last"], init_lora_weights=False)
        )
        return found.double()

    fast, oracle = (
        trained(adapted(), method=lambda m, mode=mode: fw.FORML(m, N, gradient=mode))
        for mode in ("auto", "double-backward")
    )
    same(fast, oracle, 1e-10)
    before = dict(adapted().named_parameters())
    moved = {name for name, p in fast[0].named_parameters() if not torch.equal(p, before[name])}
    assert moved == {name for name in before if "lora_" in name}


@pytest.mark.parametrize("gradient", ["auto", "forward"])
def test_frozen_layers_and_low_rank_updates(gradient: str) -> None:
    """The same without peft: a low-rank term beside a frozen layer."""

    class LowRank(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.up(self.down(x))

    def adapted() -> nn.Module:
        torch.manual_seed(2)
        model: Any = Net()
        model.first[0], model.last = LowRank(model.first[0]), LowRank(model.last)
        return model.double()

    fast = trained(adapted(), method=lambda m: fw.FORML(m, N, gradient=gradient))
    same(fast, trained(adapted(), method=lambda m: fw.FORML(m, N, gradient="double-backward")), 1e-10)
    before = dict(adapted().named_parameters())
    assert all(torch.equal(p, before[name]) for name, p in fast[0].named_parameters() if ".base." in name)
