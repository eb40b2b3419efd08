"""Refuses models whose backward pass does something of its own that no gradient mode can follow."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fairweight.errors import LabelsBeyondLogits, NotDifferentiable
from fairweight.metagradient import _python_random, _written
from fairweight.metagradient.model import RandomState, trainable
from fairweight.metagradient.passes import losses_with_graph, run
from fairweight.metagradient.per_layer._trial import FEW, casts_forgotten, few
from fairweight.types import Batch, Loss

_passed: WeakKeyDictionary[nn.Module, set[bool]] = WeakKeyDictionary()  # in train mode, in eval mode


def check_backward(model: nn.Module, batch: Batch, loss: Loss) -> None:
    """Go back through the model once, on copies of its parameters; each model once in each of its two modes.

    A function that adds to `.grad` by itself, as reversible blocks do, would do so at every pass of a step. Also
    notes whether the model draws from Python's random streams, and which parameters it writes over.
    """
    passed = _passed.setdefault(model, set())
    if model.training in passed:
        return
    for samples in (few(batch, FEW), batch):  # few are enough: this must not be the peak of the memory
        try:
            with _python_random.watched(model):
                _go_back(model, samples, loss)
            break
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            if isinstance(error, LabelsBeyondLogits) or samples is batch:
                raise
    passed.add(model.training)


def _go_back(model: nn.Module, batch: Batch, loss: Loss) -> None:
    own = trainable(model)
    copies = {name: p.detach().clone().requires_grad_() for name, p in own.items()}
    capped = {id(p) for m in model.modules() if getattr(m, "max_norm", None) for p in m.parameters(recurse=False)}
    frozen = {n: p.detach().clone() for n, p in model.named_parameters() if id(p) in capped and n not in own}
    held = {name: (p, p._version, p.data_ptr()) for name, p in {**frozen, **copies}.items()}
    before = {name: (p.grad, None if p.grad is None else p.grad.clone()) for name, p in own.items()}

    def backward(logits: Tensor) -> None:
        losses = losses_with_graph(loss, logits, batch.labels)
        if _reentrant(losses):
            raise NotDifferentiable(
                "The model checkpoints its layers in the reentrant way, which can be gone back through by .backward() "
                "alone; call checkpoint(..., use_reentrant=False)."
            )
        torch.autograd.grad(losses.sum(), list(copies.values()), allow_unused=True, retain_graph=True)
        try:
            torch.autograd.grad(losses.sum(), list(copies.values()), allow_unused=True)
        except RuntimeError as error:
            raise NotDifferentiable(
                "The model's graph can be gone back through once alone, and a step does so twice; if it checkpoints "
                "selectively, leave context_fn out of checkpoint(...)."
            ) from error

    written = set()
    try:
        with torch.enable_grad(), casts_forgotten(), RandomState.now(batch.labels.device).replayed():
            run(model, {**frozen, **copies}, batch.inputs, len(batch), backward)
    finally:
        over = frozenset(name for name, (p, *was) in held.items() if [p._version, p.data_ptr()] != was)
        if over:
            _written.names[model] = _written.names.get(model, frozenset()) | over
        for name, (grad, values) in before.items():
            if own[name].grad is not grad or not (grad is None or values is None or torch.equal(grad, values)):
                written.add(name)
                own[name].grad = None if grad is None or values is None else grad.copy_(values)
    written |= {name for name, p in copies.items() if p.grad is not None}
    if written:
        raise NotDifferentiable(
            f"The model writes into .grad in a backward pass of its own ({sorted(written)[0]}), as reversible layers "
            "do, so its gradient would count several times in a step; use that layer's plain form, or a method that "
            "learns from no exemplars, such as 'group-dro'."
        )


def _reentrant(losses: Tensor) -> bool:
    """Whether layers are checkpointed in the reentrant way: looked for, since it raises no error behind frozen ones."""
    waiting, seen = [losses.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            if node.name().startswith("CheckpointFunction"):
                return True
            seen.add(node)
            waiting += [next_one for next_one, _ in node.next_functions]
    return False
