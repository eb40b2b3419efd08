"""Mode "double-backward": the tangent by two backward passes; `solve` differentiates the look-ahead itself by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fairweight.metagradient.model import Parameters, kernels

if TYPE_CHECKING:
    from fairweight.metagradient.passes import ForwardPass


def tangent(done: ForwardPass, direction: Parameters) -> Tensor:
    """How the logits move along the direction, by two backward passes over the graph of the pass."""  # [B, K]
    with kernels(done.plain_kernels):
        return moved([done.logits], [done.parameters[name] for name in direction], list(direction.values()))[0]


def moved(outputs: Sequence[Tensor], inputs: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """How outputs of a graph, which is kept, move with its inputs: Jᵀu is linear in u, with derivative Jᵀ."""
    with torch.enable_grad():
        u = [torch.zeros_like(y, requires_grad=True) for y in outputs]
        slopes = torch.autograd.grad(outputs, inputs, u, create_graph=True, allow_unused=True, materialize_grads=True)
        total = torch.stack([inner(s, v) for s, v in zip(slopes, along, strict=True)]).sum()
        if not total.requires_grad:  # no output depends on these inputs
            return [torch.zeros_like(y) for y in outputs]
        found = torch.autograd.grad(total, u, retain_graph=True, allow_unused=True)
    if all(t is None for t in found):
        raise NotImplementedError("a backward pass can be taken once alone")
    return [torch.zeros_like(y) if t is None else t.detach() for y, t in zip(outputs, found, strict=True)]


def mixed(total: Callable[[Tensor, Tensor], Tensor], at: Tensor, scores: Tensor, along: Tensor) -> Tensor:
    """Gradient by the scores of how total(scores, at) changes as the latter moves along a direction."""
    with torch.enable_grad():
        w, at = scores.detach().requires_grad_(), at.detach().requires_grad_()
        (slope,) = torch.autograd.grad(total(w, at), at, create_graph=True)
        (found,) = torch.autograd.grad((slope * along).sum(), w)
    return found


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The sum of products; of complex tensors that of their real and imaginary parts, as torch's gradients mean it."""
    return (a.conj() * b).real.sum() if a.is_complex() else (a * b).sum()
