"""One training step: losses, weights, update. The file to read first.

l       per-sample losses at θ                            the real forward pass, graph kept
p       what the method makes of them                     `Reweighter.weigh`
θ       the user's optimizer on Σ p_i l_i                 backward over the same graph
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, LossNotFinite
from fairweight.metagradient._context import taken_back
from fairweight.metagradient.choose import Mode
from fairweight.metagradient.passes import ForwardPass, forward, predicted
from fairweight.types import Batch, Loss, StepRecord, Weighing


class Weigher(Protocol):
    """What a step asks of a method."""

    model: nn.Module
    loss: Loss
    sample_weight: Tensor | None

    def rows(self, batch: Batch, check: bool = True) -> Tensor: ...

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode: ...

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing: ...

    def whole(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, scale: float, check: bool
    ) -> StepRecord | None: ...


def backward(
    weigher: Weigher,
    batch: Batch,
    exemplar: Batch | None,
    optimizer: torch.optim.Optimizer,
    *,
    scale: float = 1.0,
    check: bool = True,
) -> StepRecord:
    """Weigh the batch and add scale times the gradient of its weighted loss to `.grad`; move nothing but scores.

    check: refuse bad labels, rows and losses with a sentence; reads values, which waits for a GPU.
    """
    mode = weigher.prepare(batch, exemplar, optimizer, check)
    record = weigher.whole(batch, exemplar, optimizer, scale, check) if weigher.sample_weight is None else None
    if record is not None:
        return record
    twice = mode.name not in ("none", "head")  # the others find the slope of the loss before they find the weights
    done = forward(
        weigher.model,
        batch,
        weigher.loss,
        plain_kernels=mode.plain_kernels,
        twice=twice,
        check=check,
        layer=mode.layer,
    )
    assert done.buffers is not None
    with torch.enable_grad(), taken_back(done.model, done.buffers, done.random):
        if check:
            check_finite(done.losses, batch)
        made = weigher.weigh(done, exemplar, optimizer, check)
        if weigher.sample_weight is not None:
            made = _times(made, weigher.sample_weight[weigher.rows(batch, check=False)], done, check)
        total = made.total if made.total is not None else (made.weights * done.losses).sum()
        scaled = total * scale
    if scaled.requires_grad:
        scaled.backward()  # type: ignore[no-untyped-call]
    logits = done.logits.detach()
    return StepRecord(
        loss=total.detach(),
        losses=done.losses.detach(),
        weights=made.weights.detach(),
        correct=predicted(logits) == batch.labels,
        logits=logits,
        labels=batch.labels,
        objective=made.objective,
        exemplar_losses=made.exemplar_losses,
        exemplar_groups=None if exemplar is None else exemplar.compared(),
        pull=made.pull,
        gradient=made.gradient,
        agreement=made.agreement,
        mode=made.mode,
    )


def _times(made: Weighing, own: Tensor, done: ForwardPass, check: bool) -> Weighing:
    """Multiply the weights by the user's own, not scaled anew: a heavy batch moves the model more."""
    if check and made.total is not None:
        plain = (made.weights * done.losses).sum()
        ours, theirs = (torch.autograd.grad(x, done.logits, retain_graph=True)[0] for x in (plain, made.total))
        if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-6):
            raise BadInput("sample_weight multiplies losses, and this method changes them otherwise; leave one out.")
    return replace(made, weights=made.weights * own.to(made.weights.dtype), total=None)


def update(optimizer: torch.optim.Optimizer, clip_norm: float | None = None) -> None:
    """Clip the gradient's norm where asked, and step the optimizer."""
    _check_optimizer(optimizer)
    if clip_norm is not None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip_norm)
    optimizer.step()
    torch.clear_autocast_cache()  # several steps inside one autocast block must not reuse the old parameters


def take_step(
    weigher: Weigher,
    batch: Batch,
    exemplar: Batch | None,
    optimizer: torch.optim.Optimizer,
    *,
    clip_norm: float | None = None,
    check: bool = True,
) -> StepRecord:
    """One whole step: gradients cleared, weights found, parameters moved once."""
    _check_optimizer(optimizer)
    optimizer.zero_grad()
    record = backward(weigher, batch, exemplar, optimizer, check=check)
    update(optimizer, clip_norm)
    return record


def _check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise BadInput("LBFGS evaluates the loss many times a step; choose another optimizer, such as SGD or Adam.")


def check_finite(losses: Tensor, batch: Batch) -> None:
    """Refuse losses that are NaN or infinite, naming their rows."""
    bad = ~torch.isfinite(losses)
    if bool(bad.any()):
        where = torch.nonzero(bad).flatten()
        rows = (batch.rows[where] if batch.rows is not None else where)[:8].tolist()
        raise LossNotFinite(
            f"The loss of {int(bad.sum())} of {len(losses)} samples is not finite (rows {rows}); nothing was moved. "
            "Look at those inputs, lower the learning rate, or clip the gradient (clip_norm=1.0)."
        )
