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
from fairweight.fast.compiled import Compiled
from fairweight.fast.per_layer_graph import LayerStep
from fairweight.fast.step_graph import Traced, TracedStep
from fairweight.metagradient import _python_random, _written
from fairweight.metagradient.choose import choose, hooked
from fairweight.metagradient.model import RandomState, call, exchanged, kernels, snapshot, trainable, unwrap
from fairweight.metagradient.passes import ForwardPass, Mode, Solution, check_labels, write_slopes
from fairweight.metagradient.solve import Rates, check_finite
from fairweight.types import Batch, Loss, ObjectiveFunction

# What torch.compile takes as its backend ("eager": the graph as it is), or a function that compiles a graph.
Backend = str | Callable[[GraphModule], Callable[..., Any]]
_BOUND = {torch.float64: 1e-6, torch.float32: 0.01}  # of two ways, relative to their size: rounding, and TF32's
_HALF = 0.25  # in half precision
_log = logging.getLogger("fairweight")


@dataclass(kw_only=True)
class TracedPass(ForwardPass):
    """A step whose first half has been computed; the second gives the model's gradient."""

    step: TracedStep
    traced: Traced | None

    keeps_graph = False

    def backward(self, total: Tensor) -> None:
        """Add the gradient: the graph of total ends at the losses, and the second half starts from its slope there."""
        assert self.traced is not None
        write_slopes(self.parameters, self.step.gradients(self.traced, self._at_root(total)))
        self.step.move_statistics(self.traced)
        self.traced = None  # what the second half needed: a look at agreement has that memory


class TracedSteps:
    """Traces a step once, for the batch shape that is usual; another, such as the last of an epoch, is left alone."""

    def __init__(self, backend: Backend = "inductor") -> None:
        if isinstance(backend, str) and backend not in ("inductor", "eager"):
            raise BadInput(f'backend={backend!r}: give "inductor", "eager", or a function that compiles a graph.')
        self._compile = backend if callable(backend) else Compiled if backend == "inductor" else None
        self.refusal: str | None = None  # why steps are not traced
        self.traces = 0
        self.step: TracedStep | None = None
        self._key: tuple[Any, ...] | None = None

    def forward(
        self, model: nn.Module, batch: Batch, exemplar: Batch, loss: Loss, objective: ObjectiveFunction,
        scores: Tensor, rates: Rates, mode: Mode, *, at_rest: bool = False, check: bool = True,
    ) -> TracedPass | None:  # fmt: skip
        """The first half of a step with its solution; None where a step of this kind is not traced."""
        inner = unwrap(model)
        parameters = trainable(inner)
        key = mode.name, *_key(model, batch, exemplar)
        if self.refusal is None and (name := hooked(parameters)) is not None:
            self._refuse(f"{name} has a hook, which only a backward pass calls")
        if self.refusal is None and inner in _python_random.drawing:
            self._refuse("the model draws random numbers in Python, which a graph would repeat")
        if self.refusal is None and inner in _written.names:
            self._refuse("the model writes over a parameter in its forward pass, which a graph would not")
        if self.refusal is not None or self._key not in (None, key):
            return None
        first = self.step is None
        if self.step is None:
            try:
                if mode.name not in ("forward", "per-layer"):  # a graph sees through what backward holds constant
                    choose(inner, batch, loss, "forward")
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
        try:
            traced = self.step.solve(parameters, scores, rates, batch, exemplar)
        except RuntimeError as error:  # of a graph that was compiled and does not run
            if not first or isinstance(error, torch.OutOfMemoryError):
                raise
            self._refuse(f"its graph does not run ({str(error).strip().splitlines()[0]})")
            return None
        seen = traced.seen
        if check:
            check_finite(seen["objective"], seen["gradient"])
        if first and not self.step.random and (reason := _left_out(self.step, traced, batch)) is not None:
            self._refuse(reason)  # not asked of one that draws masks of its own, whose logits are others
            return None
        return TracedPass(
            inner, parameters, batch, loss, seen["logits"], seen["losses"].detach().requires_grad_(),
            RandomState.none(batch.labels.device), mode.plain_kernels, check=check, step=self.step, traced=traced,
            solution=Solution(seen["gradient"], seen["objective"], seen["exemplar_losses"], seen["pull"]),
            ran_as=f"{'per-layer' if isinstance(self.step, LayerStep) else 'forward'}, traced",
        )  # fmt: skip

    def _refuse(self, reason: str) -> None:
        self.refusal, self.step = reason, None
        _log.info("the step's passes run one by one, not as one graph: %s", reason)


def _left_out(step: TracedStep, found: Traced, batch: Batch) -> str | None:
    """How the traced step differs from the model's own pass, in words; None: not at all. Changes nothing.

    A graph knows what batch norm does to its running statistics, and of no other buffer that a pass moves.
    """
    device, logits = batch.labels.device, found.seen["logits"]
    cast = torch.is_autocast_enabled(device.type)  # then the logits alone may be in full precision
    bound = _HALF if cast else _BOUND.get(logits.dtype, _HALF)
    before = dict(step.model.named_buffers())
    with torch.no_grad(), exchanged(step.model, snapshot(step.model)):
        with RandomState.now(device).replayed(), kernels(plain=True):  # those of the trace
            true = call(step.model, batch.inputs, len(batch))
        after = dict(step.model.named_buffers())
    with torch.no_grad(), exchanged(step.model, snapshot(step.model)):
        step.move_statistics(found)
        moved = dict(step.model.named_buffers())
    if not _near(true, logits, logits, bound):
        return "the model's logits are others than those of its graph"
    for name, value in after.items():
        was = before.get(name)
        change = value - was if was is not None and value.is_floating_point() else value
        if was is None or not _near(value, moved[name], change, bound):
            return f"the graph does not move the buffer {name!r} as the model does"
    return None


def _near(a: Tensor, b: Tensor, size: Tensor, bound: float) -> bool:
    """True if |a − b| ≤ bound · max|size|; non-finite entries must match."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    a, b, limit = a.double(), b.double(), bound * size.double().abs().nan_to_num(0.0).max() if size.numel() else 0.0
    return bool(((a - b).abs() <= limit).logical_or(a == b).logical_or(~torch.isfinite(a) & ~torch.isfinite(b)).all())


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
