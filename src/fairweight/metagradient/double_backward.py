"""Mode "double-backward": the tangent by two backward passes; `solve` differentiates the look-ahead itself by it."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.metagradient.model import Parameters, kernels
from fairweight.metagradient.passes import ForwardPass


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """How the logits move along the direction, by two backward passes over the graph of the pass."""  # [B, K]
    along = {name: done.parameters[name] for name in direction}
    with torch.enable_grad(), kernels(done.plain_kernels):
        u = torch.zeros_like(done.logits, requires_grad=True)  # J^T u is linear in u, with derivative J^T
        slopes = torch.autograd.grad(
            done.logits, list(along.values()), u, create_graph=True, allow_unused=True, materialize_grads=True
        )
        moved = torch.stack([inner(slopes[k], direction[name]) for k, name in enumerate(along)]).sum()
        if not moved.requires_grad:  # the direction holds no parameter that the logits depend on
            return torch.zeros_like(done.logits)
        (found,) = torch.autograd.grad(moved, u, retain_graph=True)
    return found.detach()


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The sum of products; of complex tensors that of their real and imaginary parts, as torch's gradients mean it."""
    return (a.conj() * b).real.sum() if a.is_complex() else (a * b).sum()
