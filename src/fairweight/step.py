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
from fairweight.metagradient.global_pass import AllRanks, GlobalPass
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
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    gathering = gathered(method.model, optimizer, alone=method.process_group is None) if distributed else nullcontext()
    with gathering, nullcontext() if (ranks := method.ranks) is None else ranks.together():
        in_parts = len(batches) > 1  # or on another rank: then all go backward part by part, and sum by themselves
        batches = [batch for batch in batches if len(batch)] or batches[:1]
        own = labels_side_by_side(batches) if in_parts else batches[0]
        all_ranks = None if ranks is None else AllRanks.of(ranks, own, exemplar, optimizer, method.steps, in_parts)
        method.check(*((own, exemplar) if all_ranks is None else (all_ranks.batch, all_ranks.exemplar)), values=check)
        if all_ranks is not None:
            in_parts, batches = all_ranks.in_parts, all_ranks.filled(batches, exemplar)
        passes = [partial(method.forward, batch, exemplar, optimizer, check=check) for batch in batches]
        wrapper = data_parallel(method.model) if in_parts else None
        with nullcontext() if wrapper is None else wrapper.no_sync():  # the step sums over parts and ranks by itself
            done = AccumulatedPass.of(passes) if in_parts else passes[0]()
            done = done if all_ranks is None else GlobalPass.of(done, all_ranks, method.model)
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
        weighing = method.weigh(done, exemplar, optimizer)
        weights, total = _weighted(method, done, weighing)
        loss = (weights * done.losses).sum() if total is None else total
        going_back = weights if total is None and done.losses.is_leaf else loss  # a leaf goes back by its weights
        if scale != 1.0:
            going_back = going_back * scale
        if scaler is not None:
            going_back = scaler.scale(going_back) if done.loss_scale is None else going_back * done.loss_scale
        measure = weighing.measure_agreement
        agreement = measure() if measure is not None and done.keeps_graph else None
    done.backward(going_back)
    if measure is not None and not done.keeps_graph:
        agreement = measure()  # with the memory that backward has freed
    has_logits = not isinstance(done, GlobalPass) or method.gathers_logits
    return StepRecord(
        loss=loss.detach(), losses=done.losses.detach(), weights=weights.detach(), correct=done.correct,
        logits=done.logits.detach() if has_logits else None, labels=batch.labels, objective=weighing.objective,
        exemplar_losses=weighing.exemplar_losses, pull=weighing.pull, gradient=weighing.gradient, agreement=agreement,
        exemplar_groups=None if exemplar is None else done.exemplars(exemplar).compared(), mode=weighing.mode,
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


def _weighted(method: Reweighter, done: ForwardPass, weighing: Weighing) -> tuple[Tensor, Tensor | None]:
    """The weights, times the user's own if given (not rescaled), and the total where it is not their weighted sum."""
    if method.sample_weight is None:
        return weighing.weights, weighing.total
    if done.check and weighing.total is not None:
        plain = (weighing.weights * done.losses).sum()
        slopes = [torch.autograd.grad(total, done.root, retain_graph=True)[0] for total in (plain, weighing.total)]
        if not torch.allclose(slopes[0], slopes[1], rtol=1e-3, atol=1e-6):
            raise BadInput("sample_weight multiplies losses, and this method changes them otherwise; leave one out.")
    return weighing.weights * method.sample_weight[method.rows(done.batch)].to(weighing.weights.dtype), None


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
