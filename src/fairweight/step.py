"""One training step: losses, weights, update. The file to read first.

l       per-sample losses at θ                            `Reweighter.forward`: one forward pass, graph kept
p       what the method makes of them                     `Reweighter.weigh`
θ       the user's optimizer on Σ p_i l_i                 backward over the same graph
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fairweight.errors import BadInput, LossNotFinite
from fairweight.metagradient.accumulated_pass import AccumulatedPass
from fairweight.metagradient.fully_sharded import gathered
from fairweight.metagradient.global_pass import Everyone, GlobalPass
from fairweight.metagradient.model import data_parallel, restored_on_error
from fairweight.metagradient.passes import ForwardPass
from fairweight.types import Batch, StepRecord, Weighing, labels_side_by_side

if TYPE_CHECKING:
    from fairweight.methods import Reweighter


def backward(
    method: Reweighter, batches: Sequence[Batch], exemplar: Batch | None, optimizer: Optimizer, *,
    scale: float = 1.0, scaler: Any = None, check: bool = True,
) -> StepRecord:  # fmt: skip
    """Weigh the batch and add scale times the gradient of its weighted loss to `.grad`; move nothing but scores.

    Several batches, also of several ranks, make the step of one that holds them all. scaler: a GradScaler, whose factor
    multiplies every loss; scores rest where it was too large. check: refuse bad values, which waits for a GPU.
    """
    in_pieces = torch.distributed.is_available() and torch.distributed.is_initialized()  # perhaps: `gathered` looks
    whole = gathered(method.model, optimizer, alone=method.process_group is None) if in_pieces else nullcontext()
    with whole, nullcontext() if (ranks := method.ranks) is None else ranks.together():
        several = len(batches) > 1  # or on another rank: then all go backward part by part, and sum by themselves
        batches = [batch for batch in batches if len(batch)] or batches[:1]
        own = batches[0] if not several else labels_side_by_side(batches)
        apart = several or len(own) == 0  # a wrapper would count layers that only stand-in exemplars go through
        everyone = None if ranks is None else Everyone.of(ranks, own, exemplar, optimizer, method.steps, apart)
        method.check(*((own, exemplar) if everyone is None else (everyone.batch, everyone.exemplar)), values=check)
        if everyone is not None:
            several, batches = everyone.several, everyone.filled(batches, exemplar)
        runs = [partial(method.forward, batch, exemplar, optimizer, check=check) for batch in batches]
        wrapper = data_parallel(method.model) if several else None
        with nullcontext() if wrapper is None else wrapper.no_sync():  # the step sums over parts and ranks by itself
            done = AccumulatedPass.of(runs) if several else runs[0]()
            done = done if everyone is None else GlobalPass.of(done, everyone, method.model)
            return _finish(method, done, exemplar, optimizer, scale, scaler)


def _finish(
    method: Reweighter, done: ForwardPass, exemplar: Batch | None, optimizer: Optimizer, scale: float, scaler: Any
) -> StepRecord:
    batch = done.batch
    with torch.enable_grad(), restored_on_error(done.model, done.buffers, done.random):
        if done.check:
            _check_finite(done.losses, batch)
        if scaler is not None and done.whole:  # of several parts, the real loss alone is scaled
            done.loss_scale = scaler.scale(torch.ones((), device=done.losses.device))
        made = method.weigh(done, exemplar, optimizer)
        weights, total = _weighted(method, done, made)
        loss = (weights * done.losses).sum() if total is None else total
        sent = weights if total is None and done.losses.is_leaf else loss  # where the losses are a leaf, they do
        if scale != 1.0:
            sent = sent * scale
        if scaler is not None:
            sent = scaler.scale(sent) if done.loss_scale is None else sent * done.loss_scale
        agreement = made.look() if made.look is not None and done.keeps_graph else None
    done.backward(sent)
    if made.look is not None and not done.keeps_graph:
        agreement = made.look()  # with the memory that backward has freed
    has_logits = not isinstance(done, GlobalPass) or method.gathers_logits
    return StepRecord(
        loss=loss.detach(), losses=done.losses.detach(), weights=weights.detach(), correct=done.correct,
        logits=done.logits.detach() if has_logits else None, labels=batch.labels, objective=made.objective,
        exemplar_losses=made.exemplar_losses, pull=made.pull, gradient=made.gradient, agreement=agreement,
        exemplar_groups=None if exemplar is None else done.exemplars(exemplar).compared(), mode=made.mode,
        batch=None if done.whole else batch,
    )  # fmt: skip


def update(optimizer: Optimizer, clip_norm: float | None = None) -> None:
    """Clip the gradient's norm where asked, and step the optimizer."""
    _check_optimizer(type(optimizer))  # type: ignore[arg-type]
    if clip_norm is not None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip_norm)
    optimizer.step()
    torch.clear_autocast_cache()  # several steps inside one autocast block must not reuse the old parameters


def take_step(
    method: Reweighter, batch: Batch, exemplar: Batch | None, optimizer: Optimizer, *,
    clip_norm: float | None = None, check: bool = True,
) -> StepRecord:  # fmt: skip
    """One whole step: gradients cleared, weights found, parameters moved once."""
    _check_optimizer(type(optimizer))  # type: ignore[arg-type]
    optimizer.zero_grad()
    record = backward(method, [batch], exemplar, optimizer, check=check)
    update(optimizer, clip_norm)
    return record


@cache
def _check_optimizer(kind: Any) -> None:
    closure: Any = inspect.signature(kind.step).parameters.get("closure")
    named = closure is not None and closure.kind not in (closure.VAR_POSITIONAL, closure.VAR_KEYWORD)
    if (named and closure.default is closure.empty) or issubclass(kind, torch.optim.LBFGS):
        raise BadInput(
            f"{kind.__name__} evaluates the loss many times a step; choose another optimizer, such as SGD or Adam."
        )


def _weighted(method: Reweighter, done: ForwardPass, made: Weighing) -> tuple[Tensor, Tensor | None]:
    """The weights, with the user's own where there are any, not scaled anew; and the total where they do not say it."""
    if method.sample_weight is None:
        return made.weights, made.total
    if done.check and made.total is not None:
        plain = (made.weights * done.losses).sum()
        slopes = [torch.autograd.grad(total, done.root, retain_graph=True)[0] for total in (plain, made.total)]
        if not torch.allclose(slopes[0], slopes[1], rtol=1e-3, atol=1e-6):
            raise BadInput("sample_weight multiplies losses, and this method changes them otherwise; leave one out.")
    return made.weights * method.sample_weight[method.rows(done.batch)].to(made.weights.dtype), None


def _check_finite(losses: Tensor, batch: Batch) -> None:
    if math.isfinite(float(losses.detach().sum())):
        return
    bad = ~torch.isfinite(losses)
    if bool(bad.any()):  # a sum may overflow
        where = torch.nonzero(bad).flatten()
        rows = (batch.rows[where] if batch.rows is not None else where)[:8].tolist()
        raise LossNotFinite(
            f"The loss of {int(bad.sum())} of {len(losses)} samples is not finite (rows {rows}); nothing was moved. "
            "Look at those inputs, lower the learning rate, or clip the gradient (clip_norm=1.0)."
        )
