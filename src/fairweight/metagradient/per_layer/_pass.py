"""A forward pass whose layers were observed: one backward pass gives its slopes at any weights, and the pull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable
from fairweight.metagradient.forward import tangent
from fairweight.metagradient.model import Parameters, trainable, unwrap
from fairweight.metagradient.passes import (
    ForwardPass,
    Mode,
    classification_loss,
    forward,
    pull_by_tangent,
    virtual_forward,
    write_slopes,
)
from fairweight.metagradient.per_layer._frozen_norm import Switch
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._record import ByGraph, Record, Rest
from fairweight.metagradient.per_layer._trial import Plan, plan
from fairweight.types import Batch, Loss


@dataclass
class LayerPass(ForwardPass):
    """Its losses are a leaf: what is asked of a function of them starts from its slope by each loss."""

    seen: Observer | None = None
    graph: ForwardPass | None = None  # the pass with its graph, until the record is made
    record: Record | ByGraph | None = None

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        (weights,) = torch.autograd.grad(total, self.losses)
        fresh = self.record is None and self.loss_scale is None
        found = self._at(weights).slopes(None if fresh else weights, names=moving)  # fresh: it went back with them
        return {name: found[name] if name in found else torch.zeros_like(p) for name, p in moving.items()}

    def pull(self, direction: Parameters) -> Tensor:
        return self._at(torch.full_like(self.losses, 1.0 / len(self.losses))).pull(direction)

    def backward(self, total: Tensor) -> None:
        (weights,) = torch.autograd.grad(total, self.losses)
        if self.seen is not None and self.seen.frozen is not None:  # the real gradient: statistics move
            assert self.graph is not None
            self.seen.frozen.on = False
            real = ByGraph(self.graph.losses, weights, self.parameters, lambda _: weights)
            write_slopes(self.parameters, real.slopes(last=True))
            return
        fresh = self.record is None and self.loss_scale is None
        write_slopes(self.parameters, self._at(weights).slopes(None if fresh else weights, last=True))

    def _at(self, weights: Tensor) -> Record | ByGraph:
        """The record of the pass; its one backward pass starts with the weights that are asked for first."""
        if self.record is None:
            assert self.seen is not None
            assert self.graph is not None
            done, seen = self.graph, self.seen
            if self.loss_scale is not None:
                weights = weights * self.loss_scale

            def by_tangent(v: Parameters) -> Tensor:
                return pull_by_tangent(done, tangent(done, v))

            try:
                plan = plan_of(seen, done.model, done.batch, done.loss, plain_kernels=done.plain_kernels)
                rest = Rest(plan.rest, by_tangent) if plan.rest else None
                self.record = Record(seen, done.losses, weights, plan.choices, rest=rest, keep=seen.frozen is not None)
            except NotDifferentiable:  # this batch goes another way through the model
                self.record = ByGraph(done.losses, weights, done.parameters, by_tangent)
            if seen.frozen is None:
                self.graph = None
        return self.record


def layer_forward(
    model: nn.Module,
    batch: Batch,
    loss: Loss = classification_loss,
    mode: Mode = Mode("per-layer"),  # noqa: B008 - frozen
    *,
    virtual: bool = False,
    check: bool = True,
) -> LayerPass:
    """A forward pass with its layers observed, the real one or one that moves nothing."""
    parameters = trainable(unwrap(model))
    seen = Observer(parameters, batch.inputs, Switch() if mode.name == "per-layer-frozen" else None)
    if virtual:
        done = virtual_forward(model, batch, loss, plain_kernels=mode.plain_kernels, around=seen)
    else:
        done = forward(
            model, batch, loss, plain_kernels=mode.plain_kernels, twice=True, check=check, around=seen,
            parameters=parameters,
        )  # fmt: skip
    losses = done.losses.detach().requires_grad_()
    return LayerPass(
        done.model, done.parameters, batch, loss, done.logits.detach(), losses, done.random, done.plain_kernels,
        done.buffers, check=done.check, seen=seen, graph=done,
    )  # fmt: skip


# of every model that was tried
_plans: WeakKeyDictionary[nn.Module, dict[Any, Plan]] = WeakKeyDictionary()


def tried(model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False, frozen: bool = False) -> Plan:
    """The plan for this model's passes, found by trial; NotDifferentiable says why there is none."""
    inner = unwrap(model)
    key, found = plan(inner, batch, loss, plain_kernels=plain_kernels, frozen=frozen)
    # where one sample lies nobody can tell, and it does not matter; of more of them it says nothing
    _plans.setdefault(inner, {})[key, loss, len(batch) == 1] = found
    return found


def plan_of(seen: Observer, model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False) -> Plan:
    """The plan for a pass that was observed; a pass unlike those before is tried first."""
    known = _plans.setdefault(model, {})
    if (seen.signature, loss, len(batch) == 1) not in known:
        tried(model, batch, loss, plain_kernels=plain_kernels, frozen=seen.frozen is not None)
    return known_plan(seen, model, loss, len(batch))


def known_plan(seen: Observer, model: nn.Module, loss: Loss, size: int) -> Plan:
    """The plan for a pass like one that was tried."""
    found = _plans.get(model, {}).get((seen.signature, loss, size == 1))
    if found is None:
        raise NotDifferentiable(
            "The model takes another way through its layers with a few samples than with this batch, which per-layer "
            "gradients do not support; use gradient='forward'."
        )
    return found
