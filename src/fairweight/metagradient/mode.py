"""Which gradient mode a model supports, and which one "auto" takes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable, UnknownName
from fairweight.metagradient import difference, double_backward
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.look_ahead import dense
from fairweight.metagradient.passes import (
    ForwardPass,
    Parameters,
    compiled,
    trainable,
    unwrap,
    virtual_forward,
)
from fairweight.types import Batch, Loss

MODES = ("auto", "forward", "difference", "double-backward")
# Below this many multiplications a pass is all overhead, and double backward starts the fewest operations.
SMALL = 200_000
_UNSUPPORTED = re.compile(
    r"forward AD|derivative for|double backward|differentiate twice|not implemented|does not support|doesn't support",
    re.I,
)
_UNSEEN = "backward holds part of the pass constant, such as a block under no_grad, or can be taken only once"
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-3}  # of the two ways to take a tangent; other types: 0.05
_log = logging.getLogger("fairweight")
_said: WeakKeyDictionary[nn.Module, Mode] = WeakKeyDictionary()  # what the log says of each model


@dataclass(frozen=True)
class Mode:
    """How the score gradient is computed, and why."""

    name: str
    plain_kernels: bool = False
    reason: str = ""

    def __str__(self) -> str:
        kernel = ", attention by elementary operations" if self.plain_kernels else ""
        return f"{self.name}{kernel}"


def tangent(done: ForwardPass, direction: Parameters, mode: Mode) -> Tensor:
    """How the logits of the train batch move along the direction."""  # [B, K]
    ways = {"difference": difference.tangent, "double-backward": double_backward.tangent}
    return ways.get(mode.name, forward_tangent)(done, direction)


def choose(model: nn.Module, batch: Batch, loss: Loss, asked: str) -> Mode:
    """The mode to use for this model, found by trying it once on this batch; leaves everything as it was."""
    if asked not in MODES:
        raise UnknownName(f"{asked!r} is not a gradient mode; choose from: {', '.join(MODES)}.")
    if asked == "difference":
        return Mode("difference", reason="asked for")
    if asked == "double-backward":
        return _double_backward(model, batch, loss)
    first = _refusal(_try_forward, model, batch, loss, False)
    if first is None:
        if asked == "auto" and _small(model) and not _refusal(_try_double, model, batch, loss, False):
            return _say(
                model, Mode("double-backward", reason="the model is so small that the number of operations decides")
            )
        return _say(model, Mode("forward", reason="every operator of the model has a forward-mode derivative"))
    second = _refusal(_try_forward, model, batch, loss, True)
    if second is None:
        return _say(
            model,
            Mode("forward", plain_kernels=True, reason=f"the fused kernel has no forward-mode derivative ({first})"),
        )
    if asked == "forward":
        raise NotDifferentiable(
            f"Forward mode does not work on this model ({second}); use gradient='auto' or 'difference'."
        )
    if second == _UNSEEN and not _refusal(_try_double, model, batch, loss, False):
        return _say(model, Mode("double-backward", reason=second))
    return _say(model, Mode("difference", reason=f"an operator has no forward-mode derivative ({second})"))


def _double_backward(model: nn.Module, batch: Batch, loss: Loss) -> Mode:
    for plain in (False, True):
        refusal = _refusal(_try_double, model, batch, loss, plain)
        if refusal is None:
            return Mode("double-backward", plain_kernels=plain, reason="asked for")
    raise NotDifferentiable(f"Double backward does not work on this model ({refusal}); use gradient='auto'.")


def _say(model: nn.Module, mode: Mode) -> Mode:
    if _said.get(model) != mode:
        _said[model] = mode
        _log.info("score gradient: %s; %s", mode, mode.reason)
    return mode


def _small(model: nn.Module) -> bool:
    parameters = trainable(unwrap(model))
    on_cpu = next(iter(parameters.values())).device.type == "cpu"
    return on_cpu and not compiled(model) and sum(p.numel() for p in parameters.values()) <= SMALL


def _refusal(
    attempt: Callable[[nn.Module, Batch, Loss, bool], None], model: nn.Module, batch: Batch, loss: Loss, plain: bool
) -> str | None:
    """Why the attempt is not possible, in torch's words; an error of the model itself is raised as it is."""
    try:
        attempt(model, batch, loss, plain)
    except (NotImplementedError, RuntimeError) as error:
        if not isinstance(error, NotImplementedError) and not _UNSUPPORTED.search(str(error)):
            raise
        virtual_forward(model, batch, loss, plain_kernels=plain)  # raises what the model raises without derivatives
        return str(error).strip().split("\n")[0].rstrip(".")
    return None


def _try_forward(model: nn.Module, batch: Batch, loss: Loss, plain: bool) -> None:
    _compare(forward_tangent, virtual_forward(model, batch, loss, plain_kernels=plain))


def _try_double(model: nn.Module, batch: Batch, loss: Loss, plain: bool) -> None:
    _compare(double_backward.tangent, virtual_forward(model, batch, loss, plain_kernels=plain))


def _compare(tangent_of: Callable[[ForwardPass, Parameters], Tensor], done: ForwardPass) -> None:
    """Take the tangent Jr along a random direction r and compare u·Jr with r·Jᵀu, which one backward pass gives.

    They differ where one of the two does not see what the other sees, and neither says so.
    """
    random = torch.Generator(done.device).manual_seed(0)
    along = {
        name: torch.empty_like(p, requires_grad=False).normal_(generator=random) for name, p in done.parameters.items()
    }
    moved = tangent_of(done, along)  # [B, K]
    u = moved if bool((moved != 0).any()) else torch.ones_like(moved)
    slope = torch.autograd.grad(
        done.logits, list(done.parameters.values()), u, allow_unused=True, materialize_grads=True
    )
    back = sum(float((dense(s) * r).sum(dtype=torch.float64)) for s, r in zip(slope, along.values(), strict=True))
    ahead = float((u * moved).sum(dtype=torch.float64))
    if abs(back - ahead) > _TOLERANCE.get(moved.dtype, 0.05) * max(abs(back), abs(ahead)):
        raise NotImplementedError(_UNSEEN)
