"""Mode "head": the tangent along the last linear layer's own parameters, in closed form from its input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fairweight.metagradient._watched import Watched, uncompiled
from fairweight.metagradient.passes import ForwardPass, Parameters, in_full


def tangent(done: ForwardPass, direction: Parameters, layer: nn.Linear) -> Tensor:
    """How the logits move along a direction that lies in the layer: h Vᵀ + c, without another pass."""  # [B, K]
    watched = _watched(done, layer)
    weight, bias = (_part(direction, done.parameters, own) for own in (layer.weight, layer.bias))
    return watched.tangent(weight, bias).reshape(done.logits.shape)


def slopes(
    done: ForwardPass, moving: Parameters, total: Callable[[Tensor, Tensor], Tensor], layer: nn.Linear
) -> Parameters:
    """Gradient of a train loss, given as a function of (logits, losses), by the layer's parameters: Gᵀh and Σ G.

    The graph of the pass is not gone back through: in a compiled model that would be all of it.
    """
    with torch.enable_grad():
        z = in_full(done.logits.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(total(z, done.loss(z, done.batch.labels)), z)
    g = slope.reshape(len(slope), -1)  # [B, K]
    weight, bias = _watched(done, layer).slopes(g)
    return {name: (weight if p is layer.weight else bias).to(p.dtype) for name, p in moving.items()}


def _watched(done: ForwardPass, layer: nn.Linear) -> Watched:
    """The layer in the pass, seen again where it could not be."""
    if done.watched is None or done.watched.layer is not layer:
        done.watched = _again(done, layer)
    return done.watched


def _again(done: ForwardPass, layer: nn.Linear) -> Watched:
    """The layer in a pass of its own: hooks do not fire inside what torch.compile or several devices run."""
    watched = Watched(layer)
    here = {name: p.detach() for name, p in done.parameters.items()}
    with torch.no_grad(), uncompiled(done.model), watched.during():
        watched.ends(done.run(here, done.batch, torch.Tensor.detach))
    return watched


def _part(direction: Parameters, parameters: Parameters, own: Tensor | None) -> Tensor | None:
    """The direction's entry for one of the layer's tensors, which goes by another name in the model."""
    return next((value for name, value in direction.items() if parameters[name] is own), None)
