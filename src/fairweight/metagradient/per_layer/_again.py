"""A function of parameters and samples taken again by itself, for derivatives that no rule gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from fairweight.metagradient.forward import load_tables
from fairweight.metagradient.per_layer._layout import Place
from fairweight.metagradient.per_layer._term import Term
from fairweight.types import map_tensors


class Repeatable(Protocol):
    """A call that can be taken again with other weights."""

    weights: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: Callable[..., Any]

    def at(self, weights: Sequence[Tensor]) -> list[Tensor]: ...


class Again(Term):
    """The function taken again at its own weights, with what arrived at its outputs."""

    def __init__(self, use: Repeatable, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> None:
        self.use, self.weights = use, use.weights
        self.arrived = [
            (k, g, place)
            for k, (g, place) in enumerate(zip(gradients, places, strict=True))
            if g is not None and place is not None
        ]

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        scaled = [g if ratio is None else place.scale(g, ratio) for _, g, place in self.arrived]
        with torch.enable_grad():
            live = [w.detach().requires_grad_() for w in self.weights]
            made = self.use.at(live)
            return torch.autograd.grad(
                [made[k] for k, _, _ in self.arrived], live, scaled, allow_unused=True, materialize_grads=True
            )

    def pull(self, along: Sequence[Tensor | None]) -> Tensor:
        moved = self._tangents(along)
        parts = [place.sums(moved[k] * g) for k, g, place in self.arrived if moved[k] is not None]
        return torch.stack(parts).sum(dim=0)

    def _tangents(self, along: Sequence[Tensor | None]) -> list[Any]:
        pairs = list(zip(self.weights, along, strict=True))
        load_tables()
        try:
            with torch.no_grad(), forward_ad.dual_level():
                dual: Any = forward_ad.make_dual
                made = self.use.at([w.detach() if v is None else dual(w.detach(), v) for w, v in pairs])
                return [forward_ad.unpack_dual(y).tangent for y in made]  # type: ignore[no-untyped-call]
        except (NotImplementedError, RuntimeError):  # no formula: the slopes are linear in the gradient that comes in
            return self._twice(pairs)

    def _twice(self, pairs: Sequence[tuple[Tensor, Tensor | None]]) -> list[Any]:
        with torch.enable_grad():
            live = [w.detach().requires_grad_(v is not None) for w, v in pairs]
            made = self.use.at(live)
            moving = [(w, v) for w, (_, v) in zip(live, pairs, strict=True) if v is not None]
            units = [torch.zeros_like(y, requires_grad=True) for y in made]
            back = torch.autograd.grad(
                made, [w for w, _ in moving], units, create_graph=True, allow_unused=True, materialize_grads=True
            )
            total = torch.stack([(b * v).sum() for b, (_, v) in zip(back, moving, strict=True)]).sum()
            return list(torch.autograd.grad(total, units, allow_unused=True))


def outputs(value: Any) -> list[Tensor]:
    """The tensors of a function's result that a gradient can come back to, in order."""
    found: list[Tensor] = []

    def see(t: Tensor) -> Tensor:
        if t.is_floating_point():
            found.append(t)
        return t

    map_tensors(value, see)
    return found
