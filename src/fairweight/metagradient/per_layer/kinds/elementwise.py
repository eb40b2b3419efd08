"""y = a + w, y = a − w and y = a ∘ w, with either broadcast."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Kind, Place, Term, broadcast

_SUMS = (torch.add, Tensor.add)
_DIFFERENCES = (torch.sub, torch.subtract, Tensor.sub, Tensor.subtract)
_PRODUCTS = (torch.mul, torch.multiply, Tensor.mul, Tensor.multiply)


class Elementwise(Kind):
    """A parameter that is added or multiplied entry by entry: positions, biases and scales by hand, a temperature."""

    functions: ClassVar[frozenset[Any]] = frozenset({*_SUMS, *_DIFFERENCES, *_PRODUCTS})

    def __init__(self, weight: Tensor, factor: float | Tensor) -> None:
        self.weights, self.factor, self.kept = (weight,), factor, (factor,) if isinstance(factor, Tensor) else ()

    @classmethod
    def of(cls, call: Call) -> Self | None:
        product = call.function in _PRODUCTS
        if len(call.args) != 2 or set(call.kwargs) - ({"alpha"} if not product else set()):
            return None
        first, second = call.args
        if product:
            a, weight = (second, first) if call.learned(first) else (first, second)
            return cls(weight, a) if isinstance(a, Tensor) and not call.learned(a) else None
        if call.learned(second):
            return cls(second, float(call.kwargs.get("alpha", 1)) * (-1 if call.function in _DIFFERENCES else 1))
        return cls(first, 1.0) if call.learned(first) else None

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        factor = self.factor.detach() if isinstance(self.factor, Tensor) else self.factor
        plain = not isinstance(factor, Tensor) and factor == 1.0
        return [broadcast(self.weights[0], g if plain else g * factor, place)]
