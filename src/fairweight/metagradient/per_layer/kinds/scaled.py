"""y = a ∘ w, with either broadcast."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Kind, Place, Term, broadcast


class Scaled(Kind):
    """A parameter that multiplies entry by entry: the scale of a layer, a norm or a temperature by hand."""

    functions: ClassVar[frozenset[Any]] = frozenset({torch.mul, torch.multiply, Tensor.mul, Tensor.multiply})

    def __init__(self, a: Tensor, weight: Tensor) -> None:
        self.a, self.weights, self.kept = a, (weight,), (a,)

    @classmethod
    def of(cls, call: Call) -> Self | None:
        if len(call.args) != 2 or call.kwargs:
            return None
        first, second = call.args
        if call.learned(first):
            first, second = second, first
        return cls(first, second) if isinstance(first, Tensor) and not call.learned(first) else None

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        return [broadcast(self.weights[0], g * self.a.detach(), place)]
