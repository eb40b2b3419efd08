"""y = W[a] for whole numbers a."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Direct, Kind, Place, Term


class Embedding(Kind):
    """A row of a table for every number in the input; the row for padding has no gradient.

    scale_grad_by_freq: the gradient is divided by how often the number is in the batch, so the pull is, too.
    """

    functions: ClassVar[frozenset[Any]] = frozenset({torch.embedding})

    def __init__(self, weight: Tensor, index: Tensor, padding: int, shared: bool, sparse: bool) -> None:
        self.index, self.padding, self.weights, self.kept = index, padding, (weight,), (index,)
        self.shared, self.sparse = shared, sparse

    @classmethod
    def of(cls, call: Call) -> Self | None:
        given = call.read(
            "weight indices padding_idx scale_grad_by_freq sparse",
            padding_idx=-1, scale_grad_by_freq=False, sparse=False,
        )  # fmt: skip
        if not call.learned(given["weight"]):
            return None
        return cls(*(given[name] for name in ("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse")))

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        if self.padding >= 0:
            g = g.masked_fill((self.index == self.padding)[..., None], 0.0)
        if self.shared:
            g = g / self.index.flatten().bincount(minlength=len(self.weights[0]))[self.index][..., None]
        return [_Rows(self.weights[0], self.index, g, place)]


class _Rows(Direct):
    def __init__(self, weight: Tensor, index: Tensor, g: Tensor, place: Place) -> None:
        super().__init__(weight, g, place)
        self.index = index

    def slope(self, g: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten.embedding_dense_backward(g, self.index, len(self.weights[0]), -1, False)
        return found

    def moved(self, v: Tensor) -> Tensor:
        return torch.embedding(v, self.index)
