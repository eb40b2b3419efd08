"""A whole training step as one CUDA graph: at small batches a GPU waits for launches, and a replay has none."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fairweight.metagradient.model import RandomState
from fairweight.types import Batch, StepRecord, map_tensors, tensors

if TYPE_CHECKING:
    from fairweight.methods import Reweighter

_log = logging.getLogger("fairweight")
WARM_UP = 3  # eager steps before the capture: the mode is chosen and the optimizer's state exists by then


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    rates: tuple[float, ...]  # the learning rates that the graph holds
    inputs: list[Tensor]  # where the next batch is written
    record: StepRecord


class CapturedStep:
    """Takes steps by replay; one of another shape runs as usual, as does a kind of step that cannot be captured.

    A change of learning rate captures anew. The record of a replay is overwritten by the next one.
    """

    def __init__(
        self, reweighter: Reweighter, optimizer: torch.optim.Optimizer, *, clip_norm: float | None = None
    ) -> None:
        self.reweighter, self.optimizer, self.clip_norm = reweighter, optimizer, clip_norm
        self.refusals: dict[str, str] = {}  # why steps are not captured, by kind of step
        self.failure: str | None = None  # of a capture that was tried: nothing that the model or method calls for
        self._shapes: tuple[Any, ...] = ()  # of the batches that are captured
        self._graphs: dict[str, _Captured] = {}  # by kind of step
        self._warm: Counter[str] = Counter()
        self._pool: Any = None  # memory that all graphs share: only one of them runs at a time
        self.captures = 0

    @property
    def refusal(self) -> str | None:
        """Why steps are not captured; None where they are."""
        return next(iter(self.refusals.values()), None)

    def __call__(self, batch: Batch, exemplar: Batch | None) -> StepRecord:
        """One step."""
        shapes = tuple((tuple(t.shape), t.dtype) for t in _tensors(batch, exemplar))
        phase = self.reweighter.phase
        if phase in self.refusals or self._shapes not in ((), shapes):
            return self._eager(batch, exemplar)  # another shape: the last batch of an epoch
        self._shapes = shapes
        if self._warm[phase] < WARM_UP:
            return self._warm_up(batch, exemplar, phase)
        rates = tuple(float(group["lr"]) for group in self.optimizer.param_groups)
        captured = self._graphs.get(phase)
        if captured is None or captured.rates != rates:
            captured = self._capture(batch, exemplar, phase, rates)
            if captured is None:
                return self._eager(batch, exemplar)
        for static, fresh in zip(captured.inputs, _tensors(batch, exemplar), strict=True):
            static.copy_(fresh)
        captured.graph.replay()
        self.reweighter.steps += 1
        return captured.record

    def _eager(self, batch: Batch, exemplar: Batch | None) -> StepRecord:
        return self.reweighter.step(batch, exemplar, self.optimizer, clip_norm=self.clip_norm)

    def _warm_up(self, batch: Batch, exemplar: Batch | None, phase: str) -> StepRecord:
        before = RandomState.now(batch.labels.device)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            record = self._eager(batch, exemplar)
        torch.cuda.current_stream().wait_stream(side)
        if not before.unchanged():
            self._refuse(phase, "the model draws random numbers, such as dropout, which a replay would repeat")
        self._warm[phase] += 1
        return record

    def _capture(self, batch: Batch, exemplar: Batch | None, phase: str, rates: tuple[float, ...]) -> _Captured | None:
        static_batch = Batch(**map_tensors(vars(batch), torch.clone))
        static_exemplar = None if exemplar is None else Batch(**map_tensors(vars(exemplar), torch.clone))
        graph = torch.cuda.CUDAGraph()
        steps = self.reweighter.steps
        self._graphs.pop(phase, None)  # its memory can be used again
        self._pool = torch.cuda.graph_pool_handle() if self._pool is None else self._pool
        stream, random = torch.cuda.current_stream(), torch.cuda.get_rng_state()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                record = self.reweighter.step(
                    static_batch, static_exemplar, self.optimizer, clip_norm=self.clip_norm, check=False
                )
        except RuntimeError as error:
            self.failure = str(error).split("\n")[0]
            self._refuse(phase, self.failure)
            # a failed capture leaves its stream, and a generator that still takes itself for captured
            torch.cuda.set_stream(stream)
            fresh = torch.Generator(stream.device)
            fresh.set_state(random)
            torch.cuda.default_generators[stream.device.index].graphsafe_set_state(fresh)
            self._pool = None  # torch still counts it as being captured into
            return None
        finally:
            self.reweighter.steps = steps  # a capture records the step and does not take it
        made = _Captured(graph, rates, _tensors(static_batch, static_exemplar), record)
        self._graphs[phase] = made
        self.captures += 1
        return made

    def _refuse(self, phase: str, reason: str) -> None:
        self.refusals[phase] = reason
        self._graphs.pop(phase, None)
        _log.info("%s: not as a CUDA graph: %s", phase, reason)


def _tensors(batch: Batch, exemplar: Batch | None) -> list[Tensor]:
    return tensors([vars(part) for part in (batch, exemplar) if part is not None])
