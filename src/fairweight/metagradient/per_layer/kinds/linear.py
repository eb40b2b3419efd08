"""y = a Wᵀ + b."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        readers: dict[Any, Callable[..., Any]] = {F.linear: _linear, torch.addmm: _addmm, Tensor.addmm: _addmm}
        read: Callable[..., Any] = readers.get(call.function, _matmul)
        a, weight, bias, turned = read(*call.args, **call.kwargs)
        if call.learned(a) or not isinstance(weight, Tensor) or weight.ndim != 2 or a.ndim < 2:
            return None
        made = cls(call, a, weight, bias)
        made.turned = turned
        return made

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        found: list[Term] = []
        if self.a is not None:
            rows = place.rows(g.shape)
            a, flat = self.a.detach().reshape(-1, self.a.shape[-1]), g.reshape(-1, g.shape[-1])
            found.append(_Products(self.weight, matched(a, g), flat, rows, self.turned))
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

    def pull(self, along: Sequence[Tensor | None]) -> Tensor:
        (v,) = along
        assert v is not None
        matrix = matched(v.T if self.turned else v, self.g)  # [out, in]
        if self.a.shape[1] <= self.g.shape[1]:
            return self.rows.sums((self.g @ matrix) * self.a)
        return self.rows.sums((self.a @ matrix.T) * self.g)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:  # noqa: A002 - torch's name
    return input, weight, bias, False


def _matmul(input: Tensor, other: Tensor | None = None, *, mat2: Tensor | None = None) -> Any:  # noqa: A002
    return input, other if mat2 is None else mat2, None, True


def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:  # noqa: A002
    plain = beta == 1 and alpha == 1 and input.ndim == 1
    return mat1, mat2 if plain else None, input, True
