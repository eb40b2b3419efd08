"""Mode "difference": two plain forward passes on either side give the tangent of the logits approximately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairweight.errors import NotDifferentiable
from fairweight.metagradient import _written
from fairweight.metagradient.model import Parameters, trainable
from fairweight.metagradient.passes import ForwardPass, in_full, pull_by_tangent


def norm(values: Parameters) -> Tensor:
    """Euclidean norm over all entries, in float64: the squares of a small direction must not vanish."""  # []
    size: Any = torch.linalg.vector_norm
    flat = (torch.view_as_real(v) if v.is_complex() else v for v in values.values())
    return size(torch.stack([size(v, dtype=torch.float64) for v in flat]))  # type: ignore[no-any-return]


# The exponent of the precision that gives the distance to each side. Rounding falls and curvature grows with it: a
# smooth model is best at 1/3, and one with kinks such as ReLU's better near 1/2 (a narrow ResNet in float32 errs by
# 18 % at 1/3, by 1 % at 0.45, where smooth ones stay below 0.01 %).
NEARNESS = 0.45
# Under autocast: how much further to go, of which the best is taken, and how like float32's the pull must be then.
FACTORS, MIN_COSINE = (30.0, 100.0, 300.0), 0.999
SMALL = 200_000  # parameters, up to which float32 takes no longer
_factors: WeakKeyDictionary[nn.Module, tuple[int, float]] = WeakKeyDictionary()  # calls, and what to use; 0: float32


def step_length(here: Parameters, along: Parameters) -> Tensor:
    """How far to go to each side, as a multiple of the direction: well above the rounding of the parameters."""  # []
    limits = torch.finfo(min((d.dtype.to_real() for d in along.values()), key=lambda t: torch.finfo(t).bits))
    rounding = 10 * limits.eps * norm({name: here[name] for name in along})
    distance: Tensor = rounding.clamp_min(limits.eps**NEARNESS) / norm(along).clamp_min(limits.tiny)
    return distance.clamp_max(limits.max / 4)  # no direction at all: any finite length will do


def check(model: nn.Module) -> None:
    """Refuse a model that writes over what moves: what it writes would be differentiated as well."""
    if over := sorted(_written.names.get(model, frozenset()) & trainable(model).keys()):
        raise NotDifferentiable(
            f"The model writes over {over[0]} in its forward pass, as max_norm does, which a difference would take for "
            "a part of the gradient; use gradient='auto', or keep the rows short after the optimizer's step instead."
        )


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """Central difference of the logits along the direction, under autocast in its precision where that will do."""
    check(done.model)
    here = {name: in_full(p.detach()) for name, p in done.parameters.items()}
    moving = {name: in_full(d) for name, d in direction.items()}
    step = step_length(here, moving)
    small = sum(p.numel() for p in here.values()) <= SMALL
    if small or not torch.is_autocast_enabled(done.device.type):
        return _difference(done, here, moving, step)
    calls, factor = _factors.get(done.model, (0, 0.0))
    if done.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        if calls & (calls - 1) == 0:  # at the first, second, fourth, eighth, …
            factor = _best_factor(done, here, moving, step)
        _factors[done.model] = calls + 1, factor
    if factor:
        return _difference(done, here, moving, step * factor, cast=True)
    return _difference(done, here, moving, step)


def _best_factor(done: ForwardPass, here: Parameters, moving: Parameters, step: Tensor) -> float:
    """How much further to go in autocast's precision for the pull that float32 gives; 0: no distance gives it."""

    def centred(moved: Tensor) -> Tensor:
        pulled = pull_by_tangent(done, moved)
        return (pulled - pulled.mean()).double()

    exact = centred(_difference(done, here, moving, step))
    pulls = {factor: centred(_difference(done, here, moving, step * factor, cast=True)) for factor in FACTORS}
    cosines = {factor: float(F.cosine_similarity(pulled, exact, dim=0)) for factor, pulled in pulls.items()}
    best = max(cosines, key=lambda factor: cosines[factor])
    return best if cosines[best] >= MIN_COSINE else 0.0


def _difference(done: ForwardPass, here: Parameters, moving: Parameters, step: Tensor, *, cast: bool = False) -> Tensor:
    """Of the passes on both sides; cast: under the autocast that is on, with the last products in float32."""
    sides = []
    columns = 1 if done.logits.ndim == 1 else done.logits.shape[1]
    around = _FullHead(columns) if cast else torch.autocast(done.device.type, enabled=False)
    with torch.no_grad(), around, _no_fast_path():
        for sign in (1.0, -1.0):
            there = {name: p + sign * step * moving[name] if name in moving else p for name, p in here.items()}
            with torch.autocast(done.device.type, cache_enabled=False) if cast else nullcontext():
                sides.append(done.run(there, done.batch, torch.Tensor.detach, full=not cast))
    return (in_full(sides[0]) - in_full(sides[1])) / (2 * step)


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """Attention as in passes with a gradient: without one, in eval mode, torch's own layers leave padding out."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class _FullHead(TorchFunctionMode):
    """Linear layers as wide as the logits in float32: what is subtracted must not be rounded before."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
        if func is not F.linear or len(given["weight"]) != self.columns:
            return func(*args, **kwargs)
        with torch.autocast(given["input"].device.type, enabled=False):
            full: dict[str, Any] = {name: None if t is None else in_full(t) for name, t in given.items()}
            return func(**full)
