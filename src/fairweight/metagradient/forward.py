"""Mode "forward": one forward-mode pass gives the exact tangent of the logits; no second derivative is built."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, nn

from fairweight.metagradient.model import Parameters
from fairweight.metagradient.passes import ForwardPass

# Entered around the forward-mode passes of models with batch norm: cheaper formulas, the same to rounding (see fast/).
SHORTCUTS: list[Callable[[], AbstractContextManager[Any]]] = []
make_dual: Any = forward_ad.make_dual
unpack_dual: Any = forward_ad.unpack_dual


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """How the logits of the train batch move along the direction, at the pass's own parameters."""  # [B, K]
    load_tables()
    with torch.no_grad(), forward_ad.dual_level(), ExitStack() as stack:
        if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in done.model.modules()):
            for shortcut in SHORTCUTS:
                stack.enter_context(shortcut())
        here = {name: p.detach() for name, p in done.parameters.items()}
        dual = {name: make_dual(p, direction[name]) if name in direction else p for name, p in here.items()}
        logits, moved = done.run(dual, done.batch, unpack_dual)
    return torch.zeros_like(logits) if moved is None else moved


@cache
def load_tables() -> None:
    """Make torch load its forward-mode formulas, which by itself it does with a warning about its own code."""
    with warnings.catch_warnings(action="ignore"), forward_ad.dual_level():
        make_dual(torch.zeros(1), torch.zeros(1))
