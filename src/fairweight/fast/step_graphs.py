"""The traced graphs of FORML's step, one pair for the batch shape that is usual."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from fairweight.errors import BadInput, NotDifferentiable
from fairweight.fast._trace_check import difference
from fairweight.fast.compiled import compiled
from fairweight.fast.traced_step import TracedSolution, TracedStep, rate_type
from fairweight.metagradient.choose import Mode
from fairweight.metagradient.displacement import Displacement
from fairweight.metagradient.passes import ForwardPass, Parameters, predicted, trainable, unwrap
from fairweight.metagradient.weight_form import Softmax, WeightForm
from fairweight.methods.look_ahead import LookAhead
from fairweight.types import Batch, Loss, Objective, StepRecord

# Whether, and how, the passes of a step run as one graph: False, True, "compile", or what compiles the graph.
Trace = bool | Literal["compile"] | Callable[[GraphModule], Callable[..., Any]]
_log = logging.getLogger("fairweight")


class _Learner(Protocol):
    model: nn.Module
    loss: Loss
    objective: Objective
    form: WeightForm
    look_ahead: LookAhead
    at_rest: bool


class StepGraphs:
    """Traces once; a batch of another shape, such as the last of an epoch, is left to the passes one by one."""

    def __init__(self, compiling: Callable[[GraphModule], Callable[..., Any]] | None = None) -> None:
        self.compiling = compiling
        self.refusal: str | None = None
        self.traces = 0
        self._key: tuple[Any, ...] | None = None
        self._step: TracedStep | None = None
        self._agreed = False

    def suits(self, learner: _Learner, batch: Batch, exemplar: Batch, mode: Mode) -> bool:
        """Whether this step can be done as a graph at all."""
        if self.refusal is None and mode.stopped_at:
            self._refuse(mode.reason)
        if self.refusal is None and not traceable(learner):
            self._refuse("traced steps have softmax weights, a bare look-ahead or none, and no memory of directions")
        return self.refusal is None and self._key in (None, _key(learner, batch, exemplar))

    def of(self, learner: _Learner, batch: Batch, exemplar: Batch, moving: Parameters) -> TracedStep | None:
        """The graphs, traced when they are first asked for; None where the model cannot be traced."""
        if self._step is None:
            inner = unwrap(learner.model)
            try:
                self._step = TracedStep(
                    inner,
                    trainable(inner),
                    batch,
                    exemplar,
                    learner.loss,
                    learner.objective,
                    self.compiling,
                    moving=moving,
                    at_rest=learner.at_rest,
                )
            except NotDifferentiable as error:
                self._refuse(str(error))
                return None
            self._key = _key(learner, batch, exemplar)
            self.traces += 1
        return self._step

    def agrees(
        self,
        learner: _Learner,
        found: TracedSolution,
        done: ForwardPass,
        exemplar: Batch,
        displacement: Displacement,
        mode: Mode,
    ) -> bool:
        """Whether the graphs do what the passes do one by one; looked at once, before anything is moved."""
        assert self._step is not None
        if not self._agreed:
            tried = mode.name == "forward"  # which was compared with backward before it was chosen
            reason = difference(self._step, found, done, exemplar, learner.objective, displacement, tried=tried)
            if reason is not None:
                self._refuse(reason)
                self._step = None
            self._agreed = reason is None
        return self._agreed

    def rates(self, parameters: Parameters, displacement: Displacement) -> list[Tensor]:
        """The virtual step's rate of every parameter, as tensors; 0 where one stays."""
        made: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}  # most often one for all
        found = []
        for name, p in parameters.items():
            rate = displacement.scale.get(name, 0.0)
            if not isinstance(rate, Tensor):
                key = (float(rate), rate_type(p), p.device)
                if key not in made:  # written on the device: a copy from the host cannot be captured
                    made[key] = torch.full((), key[0], dtype=key[1], device=key[2])
                rate = made[key]
            found.append(rate)
        return found

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        _log.info("the step's passes run one by one, not as one graph: %s", reason)


def compiling(trace: Trace) -> Callable[[GraphModule], Callable[..., Any]] | None:
    """What is done with a traced graph; None: it runs as it is."""
    if isinstance(trace, str) and trace != "compile":
        raise BadInput(f'trace={trace!r}: give True, "compile", or a function that compiles a graph.')
    if isinstance(trace, bool):
        return None
    return compiled if isinstance(trace, str) else trace


def pass_of(learner: _Learner, batch: Batch, found: TracedSolution, mode: Mode) -> ForwardPass:
    """The train pass of a traced step, without a graph to go back through; it drew no random numbers."""
    inner = unwrap(learner.model)
    given = (inner, trainable(inner), batch, learner.loss, found.logits, found.losses, None)
    return ForwardPass(*given, plain_kernels=mode.plain_kernels)


def record_of(
    found: TracedSolution, weights: Tensor, batch: Batch, exemplar: Batch, agreed: Tensor | None, mode: str
) -> StepRecord:
    """What was seen in a traced step."""
    return StepRecord(
        loss=(weights * found.losses).sum(),
        losses=found.losses,
        weights=weights,
        correct=predicted(found.logits) == batch.labels,
        logits=found.logits,
        labels=batch.labels,
        objective=found.objective,
        exemplar_losses=found.exemplar_losses,
        exemplar_groups=exemplar.compared(),
        pull=found.pull,
        gradient=found.gradient,
        agreement=agreed,
        mode=mode,
    )


def traceable(learner: _Learner) -> bool:
    """Whether the method's options leave it a step that is one graph."""
    return (
        isinstance(learner.form, Softmax)
        and getattr(learner, "_memory", None) is None
        and learner.look_ahead.direction == "gradient"
        and learner.look_ahead.statistics == "batch"
    )


def _key(learner: _Learner, batch: Batch, exemplar: Batch) -> tuple[Any, ...]:
    """What a trace depends on beside the values."""
    device = batch.labels.device.type
    cast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    return (
        _layout(batch),
        _layout(exemplar),
        cast,
        tuple(m.training for m in learner.model.modules()),
        tuple(p.requires_grad for p in learner.model.parameters()),
    )


def _layout(batch: Batch) -> tuple[Any, ...]:
    """What a trace takes as given of a batch: shapes, what is there at all, and whatever is no tensor."""
    return len(batch), batch.groups is None, batch.shares is None, _form(batch.inputs)


def _form(inputs: Any) -> Any:
    if isinstance(inputs, Tensor):
        return inputs.shape, inputs.dtype
    if isinstance(inputs, Mapping):
        return tuple((key, _form(value)) for key, value in inputs.items())
    if isinstance(inputs, tuple | list):
        return tuple(_form(value) for value in inputs)
    return repr(inputs)
