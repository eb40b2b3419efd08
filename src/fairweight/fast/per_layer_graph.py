"""The step per layer as two graphs: scores to their gradient, then new weights to the model's gradient.

Slow twin: `metagradient/per_layer`, whose record of a pass is what is traced.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import TorchDispatchMode

from fairweight.fast._graph_edits import draws_random, split, tidy
from fairweight.fast.group_norm_layout import LayoutKept
from fairweight.fast.step_graph import SEEN, Arguments, Traced, TracedStep, refill
from fairweight.metagradient.model import call, exchanged, uncompiled
from fairweight.metagradient.per_layer import plan_of
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._record import Record
from fairweight.metagradient.per_layer._trial import casts_forgotten
from fairweight.metagradient.solve import evaluate
from fairweight.types import Batch, Loss, ObjectiveFunction


class LayerStep(TracedStep):
    """A step of fixed shapes; it is used as forward mode's is."""

    # Noted while the step is traced: buffers that the train pass moves, and parameters that have a gradient.
    _changed: list[str]
    _used: list[str]

    def _cut(self, whole: GraphModule) -> tuple[GraphModule, GraphModule]:
        tidy(whole)
        self.random = draws_random(whole)
        first, second, late = split(whole, len(SEEN) + len(self._changed), [])
        self._used = [name for name, is_late in zip(self._used, late, strict=True) if is_late]
        return first, second

    @property
    def _statistics(self) -> int:
        return len(self._changed)

    def move_statistics(self, traced: Traced) -> None:
        """Move the buffers as the forward pass would have."""
        buffers = dict(self.model.named_buffers())
        for name, value in zip(self._changed, traced.statistics, strict=True):
            buffers[name].copy_(value)

    def _trace(self, batch: Batch, exemplar: Batch, loss: Loss, objective: ObjectiveFunction) -> GraphModule:
        from torch.fx.experimental.proxy_tensor import make_fx

        model = self.model
        buffers = [name for name, _ in model.named_buffers()]

        def whole(*arguments: Any) -> list[Tensor]:
            given = Arguments(*arguments)
            rates = given.rates
            parameters = {name: t.detach().requires_grad_() for name, t in given.parameters.items()}
            samples, exemplars = refill(batch, given.train), refill(exemplar, given.exemplar)
            own = {name: t.clone() for name, t in given.held.items()}
            versions = {name: own[name]._version for name in buffers}
            seen = Observer(parameters, samples.inputs, len(samples))
            p = torch.softmax(given.scores, dim=0)
            with torch.enable_grad(), exchanged(model, {**parameters, **own}):  # backward too: checkpointed layers
                with seen:
                    logits = call(model, samples.inputs, len(samples))
                losses = loss(logits, samples.labels)
                self._changed = [name for name in buffers if own[name]._version != versions[name]]
                plan = plan_of(seen, model, samples, loss, known=True)
                if plan.rest:
                    raise NotImplementedError("some parameters are used where no layer is seen")
                if any(use.ways[0].kind.sparse for use in seen.uses):
                    raise NotImplementedError("the gradient of an embedding is sparse")
                if seen.sends:
                    raise NotImplementedError("samples may be sent elsewhere by their values")
                with _DrawsNothing():  # type: ignore[no-untyped-call]
                    record = Record(seen, losses, p, plan.choices)
            there = {name: parameters[name].detach() for name in self.moving}
            if not self.at_rest:
                slope = record.slopes(None, self.moving)
                there = {
                    name: torch.addcmul(θ, rates[name].to(θ.dtype), slope[name], value=-1) if name in slope else θ
                    for name, θ in there.items()
                }
            fixed = {name: θ.detach() for name, θ in parameters.items()}
            with torch.enable_grad():
                by = {name: θ.detach().requires_grad_() for name, θ in there.items()}
                fresh = {name: t.clone() for name, t in given.held.items()}
                with exchanged(model, {**fixed, **by, **fresh}):
                    exemplar_losses = loss(call(model, exemplars.inputs, len(exemplars)), exemplars.labels)
                    value = evaluate(objective, exemplar_losses, exemplars)
                    v = torch.autograd.grad(value, list(by.values()), allow_unused=True, materialize_grads=True)
            s = record.pull({name: rates[name] * along for name, along in zip(by, v, strict=True)})
            g = -p * (s - (p * s).sum())
            final = record.slopes(given.weights, last=True)
            self._used = list(final)
            moved = [own[name] for name in self._changed]
            found = [g, s, value, exemplar_losses, losses, logits, p, *moved, *final.values()]
            return [t.detach() for t in found]

        examples = self._arguments(batch, exemplar)
        # a cast that one pass has cached is no part of the other's graph
        with torch.no_grad(), casts_forgotten(), uncompiled(), LayoutKept():
            made = make_fx(whole, tracing_mode="fake")(*examples)
            # once more, for a graph in which nothing is written in place: only that can be cut in two
            # (its casts are in it by now, so without autocast)
            with torch.autocast(batch.labels.device.type, enabled=False):
                functional = torch.func.functionalize(made, remove="mutations")
                return make_fx(functional, tracing_mode="fake")(*examples)


class _DrawsNothing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses random numbers on the way back: checkpointed layers would get other masks than on the way there."""

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise NotImplementedError("checkpointed layers would draw their masks again")
        return func(*args, **(kwargs or {}))
