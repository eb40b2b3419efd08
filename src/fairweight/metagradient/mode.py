"""Which gradient mode a model supports, and which one "auto" takes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable, UnknownName
from fairweight.metagradient import difference, forward
from fairweight.metagradient.passes import (
    ForwardPass,
    Parameters,
    RandomState,
    kernels,
    trainable,
    unwrap,
    virtual_forward,
)
from fairweight.types import Batch, Loss

MODES = ("auto", "forward", "difference", "double-backward")
# Below this many multiplications a pass is all overhead, and double backward starts the fewest operations.
SMALL = 200_000
_UNSUPPORTED = re.compile(
    r"forward AD|derivative for|double backward|not implemented|does not support|doesn't support", re.I
)
_log = logging.getLogger("fairweight")


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
    return difference.tangent(done, direction) if mode.name == "difference" else forward.tangent(done, direction)


def choose(model: nn.Module, batch: Batch, loss: Loss, asked: str) -> Mode:
    """The mode to use for this model, found by trying it once on this batch; leaves everything as it was."""
    if asked not in MODES:
        raise UnknownName(f"{asked!r} is not a gradient mode; choose from: {', '.join(MODES)}.")
    if asked == "difference":
        return Mode("difference", reason="asked for")
    if asked == "double-backward":
        return _double_backward(model, batch, loss)
    if asked == "auto" and _small(model) and not _refusal(_try_double, model, batch, loss, False):
        return _say(Mode("double-backward", reason="the model is so small that the number of operations decides"))
    first = _refusal(_try_forward, model, batch, loss, False)
    if first is None:
        return _say(Mode("forward", reason="every operator of the model has a forward-mode derivative"))
    second = _refusal(_try_forward, model, batch, loss, True)
    if second is None:
        return _say(
            Mode("forward", plain_kernels=True, reason=f"the fused kernel has no forward-mode derivative ({first})")
        )
    if asked == "forward":
        raise NotDifferentiable(
            f"Forward mode does not work on this model ({second}); use gradient='auto' or 'difference'."
        )
    return _say(Mode("difference", reason=f"an operator has no forward-mode derivative ({second})"))


def _double_backward(model: nn.Module, batch: Batch, loss: Loss) -> Mode:
    for plain in (False, True):
        refusal = _refusal(_try_double, model, batch, loss, plain)
        if refusal is None:
            return Mode("double-backward", plain_kernels=plain, reason="asked for")
    raise NotDifferentiable(f"Double backward does not work on this model ({refusal}); use gradient='auto'.")


def _say(mode: Mode) -> Mode:
    _log.info("score gradient: %s; %s", mode, mode.reason)
    return mode


def _small(model: nn.Module) -> bool:
    parameters = trainable(unwrap(model))
    on_cpu = next(iter(parameters.values())).device.type == "cpu"
    return on_cpu and sum(p.numel() for p in parameters.values()) <= SMALL


def _refusal(
    attempt: Callable[[nn.Module, Batch, Loss, bool], None], model: nn.Module, batch: Batch, loss: Loss, plain: bool
) -> str | None:
    try:
        attempt(model, batch, loss, plain)
    except (NotImplementedError, RuntimeError) as error:
        if not isinstance(error, NotImplementedError) and not _UNSUPPORTED.search(str(error)):
            raise
        return str(error).strip().split("\n")[0].rstrip(".")
    return None


def _try_forward(model: nn.Module, batch: Batch, loss: Loss, plain: bool) -> None:
    inner = unwrap(model)
    parameters = trainable(inner)
    random = RandomState.now(next(iter(parameters.values())).device)
    nothing = torch.empty(0, device=next(iter(parameters.values())).device)
    trial = ForwardPass(inner, parameters, batch, loss, nothing, nothing, random, plain)
    forward.tangent(trial, {name: torch.zeros_like(p) for name, p in parameters.items()})


def _try_double(model: nn.Module, batch: Batch, loss: Loss, plain: bool) -> None:
    done = virtual_forward(model, batch, loss, plain_kernels=plain)
    with kernels(plain):
        parameters = list(done.parameters.values())
        slopes = torch.autograd.grad(
            done.losses.sum(), parameters, create_graph=True, allow_unused=True, materialize_grads=True
        )
        torch.autograd.grad(
            torch.stack([s.sum() for s in slopes]).sum(), parameters, allow_unused=True, materialize_grads=True
        )
