"""A parameter repeated for every sample and then used in any way: a class token, learned queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Direct, Kind, Place, Term


class Given(Kind):
    """The arguments themselves, each with the samples in a place of their own; what the function is does not matter."""

    def __init__(self, weights: tuple[Tensor, ...]) -> None:
        self.weights = weights

    @classmethod
    def of(cls, call: Call) -> Self | None:
        return None  # of any function; the trial chooses it where every weight has a place for each sample

    def run(self) -> Any:
        return self.weights

    def terms(self, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> list[Term]:
        found = zip(self.weights, gradients, places, strict=True)
        return [Direct(w, g, place) for w, g, place in found if g is not None and place is not None]
