"""Steps that run as one graph, for the batch shape that is usual."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from fairweight.errors import BadInput, NotDifferentiable
from fairweight.fast._trace_check import difference
from fairweight.fast.compiled import compiled
from fairweight.fast.per_layer_graph import LayerStep
from fairweight.fast.step_graph import Traced, TracedStep
from fairweight.metagradient.choose import UNSEEN
from fairweight.metagradient.model import hooked, trainable, unwrap
from fairweight.metagradient.passes import ForwardPass, Mode, Solution, check_labels, write_slopes
from fairweight.metagradient.solve import Rates, check_finite
from fairweight.types import Batch, Loss, ObjectiveFunction

# What torch.compile takes as its backend ("eager": the graph as it is), or a function that compiles a graph.
Backend = str | Callable[[GraphModule], Callable[..., Any]]
_log = logging.getLogger("fairweight")


@dataclass
class TracedPass(ForwardPass):
    """A step whose first half has been computed; the second gives the model's gradient."""

    step: TracedStep | None = None
    traced: Traced | None = None

    keeps_graph = False

    @property
    def ran_as(self) -> str:
        """For the record."""
        return "per-layer, traced" if isinstance(self.step, LayerStep) else "forward, traced"

    def backward(self, total: Tensor) -> None:
        """Add the gradient: the graph of total ends at the losses, and the second half starts from its slope there."""
        assert self.step is not None
        assert self.traced is not None
        (weights,) = torch.autograd.grad(total, self.losses)
        write_slopes(self.parameters, self.step.gradients(self.traced, weights))
        self.step.move_statistics(self.traced)
        self.traced = None  # what the second half needed: a look at agreement has that memory


class TracedSteps:
    """Traces a step once, for the batch shape that is usual; another, such as the last of an epoch, is left alone."""

    def __init__(self, backend: Backend = "inductor") -> None:
        if isinstance(backend, str) and backend not in ("inductor", "eager"):
            raise BadInput(f'backend={backend!r}: give "inductor", "eager", or a function that compiles a graph.')
        self._compile = backend if callable(backend) else compiled if backend == "inductor" else None
        self.refusal: str | None = None  # why steps are not traced
        self.traces = 0
        self.step: TracedStep | None = None
        self._key: tuple[Any, ...] | None = None
        self._agreed = False

    def forward(
        self,
        model: nn.Module,
        batch: Batch,
        exemplar: Batch,
        loss: Loss,
        objective: ObjectiveFunction,
        scores: Tensor,
        rates: Rates,
        mode: Mode,
        *,
        at_rest: bool = False,
        check: bool = True,
    ) -> TracedPass | None:
        """The first half of a step with its solution; None where a step of this kind is not traced."""
        key = mode.name, *_key(model, batch, exemplar)
        if self.refusal is None and mode.reason == UNSEEN:
            self._refuse(mode.reason)
        inner = unwrap(model)
        parameters = trainable(inner)
        if self.refusal is None and (name := hooked(parameters)) is not None:
            self._refuse(f"{name} has a hook, which only a backward pass calls")
        if self.refusal is not None or self._key not in (None, key):
            return None
        if self.step is None:
            try:
                kind = LayerStep if mode.name == "per-layer" else TracedStep
                self.step = kind(
                    inner, parameters, batch, exemplar, loss, objective, list(rates), self._compile, at_rest=at_rest
                )
            except NotDifferentiable as error:
                self._refuse(str(error))
                return None
            self._key = key
            self.traces += 1
        if check:
            check_labels(self.step.like, batch.labels, "train")
            check_labels(self.step.like, exemplar.labels, "exemplar")
        traced = self.step.solve(parameters, scores, rates, batch, exemplar)
        seen = traced.seen
        if check:
            check_finite([seen["gradient"]], "is finite and its gradient is not", "keep the objective smooth there")
        solution = Solution(seen["gradient"], seen["objective"], seen["exemplar_losses"], seen["pull"])
        done = TracedPass(
            inner, parameters, batch, loss, seen["logits"], seen["losses"].detach().requires_grad_(), None,
            plain_kernels=mode.plain_kernels, check=check, solution=solution, step=self.step, traced=traced,
        )  # fmt: skip
        if not self._agreed and not self.step.random:  # one that draws masks of its own has other logits
            tried = mode.name in ("forward", "per-layer")  # compared with backward before they were chosen
            reason = difference(self.step, traced, done, exemplar, objective, rates, tried=tried)
            if reason is not None:
                self._refuse(reason)
                self.step = None
                return None
            self._agreed = True
        return done

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        _log.info("the step's passes run one by one, not as one graph: %s", reason)


def _key(model: nn.Module, batch: Batch, exemplar: Batch) -> tuple[Any, ...]:
    """What a trace depends on beside the values."""
    device = batch.labels.device.type
    cast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    layouts = tuple((len(b), b.groups is None, b.shares is None, _form(b.inputs)) for b in (batch, exemplar))
    training = tuple(m.training for m in model.modules())
    return *layouts, cast, training, tuple(p.requires_grad for p in model.parameters())


def _form(inputs: Any) -> Any:
    if isinstance(inputs, Tensor):
        return inputs.shape, inputs.dtype
    if isinstance(inputs, Mapping):
        return tuple((key, _form(value)) for key, value in inputs.items())
    if isinstance(inputs, tuple | list):
        return tuple(_form(value) for value in inputs)
    return repr(inputs)
