"""y = a Wᵀ + b."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Place, Product, Term, broadcast, matched


class Linear(Product):
    """A matrix that every row of the input is multiplied by, and a bias: F.linear, matmul, addmm."""

    functions: ClassVar[frozenset[Any]] = frozenset(
        {F.linear, torch.matmul, torch.mm, torch.addmm, Tensor.matmul, Tensor.mm, Tensor.addmm}
    )

    turned = False  # the weight is [in, out]

    @classmethod
    def of(cls, call: Call) -> Self | None:
        bias = None
        if call.function is F.linear:
            if call.kwargs or len(call.args) != 3:
                given = call.read("input weight bias", bias=None)
                a, weight, bias = given["input"], given["weight"], given["bias"]
            else:
                a, weight, bias = call.args  # as nn.Linear calls it: the most often of all
        elif call.function in (torch.addmm, Tensor.addmm):
            given = call.read("input mat1 mat2", beta=1, alpha=1)
            a, weight, bias = given["mat1"], given["mat2"], given["input"]
            if given["beta"] != 1 or given["alpha"] != 1 or bias.ndim != 1:
                return None
        else:
            given = call.read("input other")
            a, weight = given["input"], given.get("other", given.get("mat2"))
        if call.learned(a) or not isinstance(weight, Tensor) or weight.ndim != 2 or a.ndim < 2:
            return None
        made = cls(call, a, weight, bias)
        made.turned = call.function is not F.linear
        return made

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        found: list[Term] = []
        if self.a is not None:
            a = matched(self.a.detach(), g)
            one_row = g.ndim == 2 and place.plain and place.axis == 0 and g.dtype in (torch.float32, torch.float64)
            if one_row and self.bias is not None and self.bias.shape == g.shape[1:]:
                return [_Affine(self.weight, self.bias, a, g, place, self.turned)]
            flat = (a, g) if g.ndim == 2 else (a.reshape(-1, a.shape[-1]), g.reshape(-1, g.shape[-1]))
            found.append(_Products(self.weight, *flat, place.rows(g.shape), self.turned))
        if self.bias is not None:
            found.append(broadcast(self.bias, g, place))
        return found


class _Products(Term):
    def __init__(self, weight: Tensor, a: Tensor, g: Tensor, rows: Place, turned: bool) -> None:
        self.weights, self.a, self.g, self.rows, self.turned = (weight,), a, g, rows, turned

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        a, g = self.a, self.g  # [R, in], [R, out]
        if ratio is not None:  # the narrower one is scaled
            a, g = (self.rows.scale(a, ratio), g) if a.shape[1] <= g.shape[1] else (a, self.rows.scale(g, ratio))
        return [a.T @ g if self.turned else g.T @ a]

    def pull(self, along: Sequence[Any]) -> Tensor:
        matrix = matched(along[0].T if self.turned else along[0], self.g)  # [out, in]
        if self.a.shape[1] <= self.g.shape[1]:
            return self.rows.sums((self.g @ matrix) * self.a)
        return self.rows.sums((self.a @ matrix.T) * self.g)


class _Affine(_Products):
    """Weight and bias together, where each sample has one row: fewer operations, which counts in small models."""

    def __init__(self, weight: Tensor, bias: Tensor, a: Tensor, g: Tensor, rows: Place, turned: bool) -> None:
        super().__init__(weight, a, g, rows, turned)
        self.weights = (weight, bias)

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        by_bias = self.g.sum(dim=0) if ratio is None else torch.mv(self.g.T, matched(ratio, self.g))
        return [*super().slopes(ratio), by_bias]

    def pull(self, along: Sequence[Any]) -> Tensor:
        v, of_bias = along
        if v is None:
            return torch.mv(self.g, matched(of_bias, self.g))
        if of_bias is None:
            return super().pull([v])
        matrix = matched(v.T if self.turned else v, self.g)
        return self.rows.sums(F.linear(self.a, matrix, matched(of_bias, self.g)) * self.g)
