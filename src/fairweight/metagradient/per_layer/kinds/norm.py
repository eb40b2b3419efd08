"""y = γ x̂ + β, where x̂ is made of each sample alone."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Kind, Place, Term, broadcast, matched


class Norm(Kind):
    """Scale and shift of layer norm, group norm, RMS norm, and of batch norm by running statistics."""

    functions: ClassVar[frozenset[Any]] = frozenset(
        {torch.layer_norm, torch.group_norm, torch.rms_norm, torch.batch_norm}
    )

    def __init__(self, call: Call, given: dict[str, Any]) -> None:
        self.function, self.given = call.function, given
        self.weight, self.bias = (w if w is not None and call.learned(w) else None for w in map(given.get, _AFFINE))
        self.kept = () if self.weight is None else (given["input"],)
        self.weights = tuple(w for w in (self.weight, self.bias) if w is not None)

    @classmethod
    def of(cls, call: Call) -> Self | None:
        given = call.read(_NAMES[call.function])
        mixes = given.get("training", False)  # batch norm by the batch's own statistics: samples see each other
        return None if mixes or call.learned(given["input"]) else cls(call, given)

    def normal(self, g: Tensor) -> Tensor:
        """x̂, in the precision of the gradient."""
        bare = {key: None if key in _AFFINE else value for key, value in self.given.items() if key != "input"}
        found: Tensor = self.function(matched(self.given["input"].detach(), g), **bare)
        return found

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        shape = [g.shape[1], *(1,) * (g.ndim - 2)] if self.function in _CHANNELS else None
        found = []
        if self.weight is not None:
            found.append(broadcast(self.weight, g * self.normal(g), place, shape))
        if self.bias is not None:
            found.append(broadcast(self.bias, g, place, shape))
        return found


_AFFINE = ("weight", "bias")
_CHANNELS = (torch.group_norm, torch.batch_norm)
_NAMES = {
    torch.layer_norm: "input normalized_shape weight bias eps cudnn_enable",
    torch.group_norm: "input num_groups weight bias eps cudnn_enabled",
    torch.rms_norm: "input normalized_shape weight eps",
    torch.batch_norm: "input weight bias running_mean running_var training momentum eps cudnn_enabled",
}
