"""The exact score gradient per layer: one forward, one backward to the layers' outputs, and products.

Where no layer mixes samples, each sample's part of every gradient is in the one backward pass. For a function
y = f(a; w) that uses parameters, keep a and the gradient ĝ that arrives at y when the losses go backward with
weights c. With ratios r = p / c,

    slopes at weights p     Σ_i r_i ĝ_iᵀ ∂f/∂w (a_i)
    pull along v            s_i = ⟨ĝ_i, ∂f/∂w (a_i) v⟩ / c_i, summed over all uses

are products of what is at hand: neither forward mode nor a second backward pass. `Observer` sees the uses in any
model, a file in `kinds/` knows each kind of function, and `tried` finds by trial how samples lie in each of them; a
model in which they mix is refused with the reason.

    done = layer_forward(model, batch)          # a ForwardPass
    done.slopes(total, moving); done.pull(direction); done.backward(total)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable
from fairweight.metagradient import difference, double_backward, passes
from fairweight.metagradient.forward import tangent
from fairweight.metagradient.model import Parameters, kernels, trainable, unwrap
from fairweight.metagradient.passes import ForwardPass, Mode, classification_loss, pull_by_tangent
from fairweight.metagradient.per_layer._frozen_norm import Switch
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._record import Record, Rest, slopes_in_use
from fairweight.metagradient.per_layer._trial import Plan, plan
from fairweight.types import Batch, Loss, tensors


@dataclass
class LayerPass(ForwardPass):
    """Its losses are a leaf: what is asked of a function of them starts from its slope by each loss."""

    mode: Mode = Mode("per-layer")  # noqa: RUF009 - frozen
    seen: Observer | None = None
    graph: ForwardPass | None = None  # the pass with its graph, until the record is made
    record: Record | None = None

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        found = self._slopes(total, names=moving)
        return {name: found[name] if name in found else torch.zeros_like(p) for name, p in moving.items()}

    def pull(self, direction: Parameters) -> Tensor:
        with kernels(self.plain_kernels):
            record = self.record or self._at(torch.full_like(self.losses, 1.0 / len(self.losses)))
            return record.pull(direction)

    def backward(self, total: Tensor) -> None:
        if self.seen is not None and self.seen.frozen is not None:  # the real gradient: statistics move
            assert self.graph is not None
            self.seen.frozen.on = False
            with kernels(self.plain_kernels):
                found = slopes_in_use(self.graph.losses, self.parameters, self._at_root(total), keep=False)
        else:
            found = self._slopes(total, last=True)
        if self.record is not None:
            found |= {name: found[name].to_sparse(1) for name in self.record.sparse & found.keys()}
        passes.write_slopes(self.parameters, found)

    def _slopes(self, total: Tensor, names: Collection[str] | None = None, *, last: bool = False) -> Parameters:
        weights = self._at_root(total)
        fresh = self.record is None and self.loss_scale is None  # then the one backward pass starts with these weights
        with kernels(self.plain_kernels):  # checkpointed layers run again
            return self._at(weights).slopes(None if fresh else weights, names, last=last)

    def _at(self, weights: Tensor) -> Record:
        """The record of the pass; its one backward pass starts with the weights that are asked for first."""
        if self.record is None:
            assert self.seen is not None
            assert self.graph is not None
            done, seen = self.graph, self.seen
            if self.loss_scale is not None:
                weights = weights * self.loss_scale
            by_tangent = partial(_pull_by_tangent, done)
            try:
                with done.random.replayed():  # a trial takes the same way, where that is drawn
                    plan = plan_of(seen, done.model, done.batch, done.loss, plain_kernels=done.plain_kernels)
                rest = Rest(plan.rest, by_tangent) if plan.rest else None
                shapes = _shapes(done.batch)
                check = seen.sends or shapes not in plan.shapes
                keep = seen.frozen is not None
                self.record = Record(seen, done.losses, weights, plan.choices, rest=rest, keep=keep, check=check)
                plan.shapes.add(shapes)
            except NotDifferentiable:  # this batch goes another way through the model
                self.record = Record(seen, done.losses, weights, (), rest=Rest(frozenset(done.parameters), by_tangent))
            if seen.frozen is None:
                self.graph = None
        return self.record


def _pull_by_tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """The pull of a pass that no trial has met, by the first mode that works; the last is approximate."""  # [B]
    plain = replace(done, plain_kernels=True)
    for of, way in ((done, tangent), (plain, tangent), (done, double_backward.tangent)):
        try:
            return pull_by_tangent(done, way(of, direction))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # the model's own would have come out before
            continue
    return pull_by_tangent(done, difference.tangent(done, direction))


def layer_forward(
    model: nn.Module,
    batch: Batch,
    loss: Loss = classification_loss,
    mode: Mode = Mode("per-layer"),  # noqa: B008 - frozen
    *,
    virtual: bool = False,
    check: bool = True,
    parameters: Parameters | None = None,
) -> LayerPass:
    """A forward pass with its layers observed, the real one or one that moves nothing."""
    parameters = parameters or trainable(unwrap(model))
    seen = Observer(parameters, batch.inputs, len(batch), Switch() if mode.name == "per-layer-frozen" else None)
    run = passes.virtual_forward if virtual else partial(passes.forward, twice=True, check=check)
    done = run(model, batch, loss, plain_kernels=mode.plain_kernels, around=seen, parameters=parameters)
    losses = done.losses.detach().requires_grad_()
    kept = {**vars(done), "logits": done.logits.detach(), "losses": losses}
    return LayerPass(**kept, mode=mode, seen=seen, graph=done)


# of every model that was tried
_plans: WeakKeyDictionary[nn.Module, dict[Any, Plan]] = WeakKeyDictionary()


def tried(model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False, frozen: bool = False) -> Plan:
    """The plan for this model's passes, found by trial; NotDifferentiable says why there is none."""
    inner = unwrap(model)
    key, found = plan(inner, batch, loss, plain_kernels=plain_kernels, frozen=frozen)
    found.shapes.add(_shapes(batch))
    # a single sample has no place to be found, nor needs one; the plan does not hold for more of them
    _plans.setdefault(inner, {})[key, loss, len(batch) == 1] = found
    return found


def _shapes(batch: Batch) -> tuple[torch.Size, ...]:
    """Shapes of one sample's inputs: a model may arrange long ones in another way than short ones."""
    return tuple(t.shape[1:] for t in tensors(batch.inputs))


def plan_of(
    seen: Observer, model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False, known: bool = False
) -> Plan:
    """The plan for a pass that was observed; one unlike those before is tried first, or refused (known)."""
    key, plans = (seen.signature, loss, len(batch) == 1), _plans.setdefault(model, {})
    if key not in plans and not known:
        tried(model, batch, loss, plain_kernels=plain_kernels, frozen=seen.frozen is not None)
    if key not in plans:
        raise NotDifferentiable(
            "The model takes another way through its layers with a few samples than with this batch, which per-layer "
            "gradients do not support; use gradient='forward'."
        )
    return plans[key]
