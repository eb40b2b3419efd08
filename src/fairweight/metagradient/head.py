"""Mode "head": the tangent along the last linear layer's own parameters, in closed form from its input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairweight.metagradient._watched import Watched, uncompiled
from fairweight.metagradient.passes import ForwardPass, Parameters


def tangent(done: ForwardPass, direction: Parameters, layer: nn.Linear) -> Tensor:
    """How the logits move along a direction that lies in the layer: h Vᵀ + c, without another pass."""  # [B, K]
    watched = done.watched if done.watched is not None and done.watched.layer is layer else _again(done, layer)
    weight, bias = (_part(direction, done.parameters, own) for own in (layer.weight, layer.bias))
    return watched.tangent(weight, bias).reshape(done.logits.shape)


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
