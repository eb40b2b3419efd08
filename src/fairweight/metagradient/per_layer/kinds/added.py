"""y = a + w and y = a − w, with w broadcast."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Kind, Place, Term, broadcast

_SUBTRACTIONS = (torch.sub, torch.subtract, Tensor.sub, Tensor.subtract)


class Added(Kind):
    """A parameter that is added or taken away: positions, biases by hand, relative positions in attention."""

    functions: ClassVar[frozenset[Any]] = frozenset({torch.add, Tensor.add, *_SUBTRACTIONS})

    def __init__(self, weight: Tensor, sign: float) -> None:
        self.weights, self.sign = (weight,), sign

    @classmethod
    def of(cls, call: Call) -> Self | None:
        if len(call.args) != 2 or set(call.kwargs) - {"alpha"}:
            return None
        first, second = call.args
        sign = float(call.kwargs.get("alpha", 1)) * (-1.0 if call.function in _SUBTRACTIONS else 1.0)
        if call.learned(second):
            return cls(second, sign)
        return cls(first, 1.0) if call.learned(first) else None

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        return [broadcast(self.weights[0], g if self.sign == 1.0 else g * self.sign, place)]
