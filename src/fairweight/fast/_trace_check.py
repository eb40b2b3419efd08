"""Whether a traced step does what its passes do one by one; asked once, when it was traced."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from fairweight.fast.step_graph import Traced, TracedStep
from fairweight.metagradient.model import Parameters, RandomState, call, kernels, snapshot
from fairweight.metagradient.passes import ForwardPass
from fairweight.metagradient.solve import Rates, displaced, exemplar_point
from fairweight.types import Batch, ObjectiveFunction

_BOUND = {torch.float64: 1e-6, torch.float32: 0.01}  # of two ways, relative to their size: rounding, and TF32's
_HALF = 0.25  # in half precision


def difference(
    step: TracedStep,
    found: Traced,
    done: ForwardPass,
    exemplar: Batch,
    objective: ObjectiveFunction,
    rates: Rates,
    *,
    tried: bool,
) -> str | None:
    """What the traced step leaves out or sees otherwise, in words; None: nothing. Leaves everything as it was.

    A graph knows what batch norm does to its running statistics, and of no other buffer that a pass moves. And its
    forward-mode pass sees through a block under no_grad, at which backward stops. tried: that forward mode and backward
    agree on this model is known; by the objective's own direction, a largest loss may be another one in each of them.
    """
    cast = torch.is_autocast_enabled(done.device.type)  # then the logits alone may be in full precision
    bound = _HALF if cast else _BOUND.get(found.seen["logits"].dtype, _HALF)
    before = snapshot(step.model)
    random = RandomState.now(done.device)
    with torch.no_grad():
        with nullcontext() if random is None else random.replayed(), kernels(plain=True):  # those of the trace
            logits = call(step.model, done.batch.inputs, len(done.batch))
        after = snapshot(step.model)
        _put(step, before)
        step.move_statistics(found)
        traced = snapshot(step.model)
        _put(step, before)
    if not _near(logits, found.seen["logits"], found.seen["logits"], bound):
        return "the model's logits are others than those of its graph"
    for name, value in after.items():
        was = before.get(name)
        moved = value - was if was is not None and value.is_floating_point() else value
        if was is None or not _near(value, traced[name], moved, bound):
            return f"the graph does not move the buffer {name!r} as the model does"
    if tried:
        return None
    back, ahead = _both_ways(step, found, done, exemplar, objective, rates)
    if abs(back - ahead) > bound * max(abs(back), abs(ahead)):
        return "backward holds part of the pass constant, such as a block under no_grad, and the graph does not"
    return None


def _put(step: TracedStep, values: Parameters) -> None:
    for name, b in step.model.named_buffers():
        if name in values:
            b.copy_(values[name])


def _near(a: Tensor, b: Tensor, size: Tensor, bound: float) -> bool:
    """True if |a − b| ≤ bound · max|size|; non-finite entries must match."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    a, b, limit = a.double(), b.double(), bound * size.double().abs().nan_to_num(0.0).max() if size.numel() else 0.0
    return bool(((a - b).abs() <= limit).logical_or(a == b).logical_or(~torch.isfinite(a) & ~torch.isfinite(b)).all())


def _both_ways(
    step: TracedStep,
    found: Traced,
    done: ForwardPass,
    exemplar: Batch,
    objective: ObjectiveFunction,
    rates: Rates,
) -> tuple[float, float]:
    """s · s for the pull s = J r along the direction r: by Jᵀ s from the backward graph, and from forward mode."""
    there = {name: p.detach() for name, p in done.parameters.items()}
    if not step.at_rest:
        slope = step.gradients(found, found.seen["weights"])
        full = {name: slope.get(name, torch.zeros_like(p)) for name, p in there.items()}
        there = displaced(there, full, rates)
        del slope, full  # copies of the parameters, beside all that the second graph needs
    there = {name: p.requires_grad_(name in rates) for name, p in there.items()}
    by = {name: there[name] for name in rates}
    point = exemplar_point(replace(done, check=False), there, exemplar, objective, by=by)
    along = {name: v * rates[name] for name, v in point.direction.items()}
    del there, by
    pull = found.seen["pull"].double()
    scale = pull.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    unit = (pull / scale).to(found.seen["weights"].dtype)  # its squares must not vanish
    slope = step.gradients(found, unit)
    back = sum(float((slope[name].double() * along[name].double()).sum() / scale) for name in along if name in slope)
    return back, float(unit.double().square().sum())
