"""Any other function of parameters and samples, such as a recurrent kernel: its own derivatives, taken alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Self

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from fairweight.errors import lacks_derivative
from fairweight.metagradient import double_backward
from fairweight.metagradient.forward import load_tables, make_dual, unpack_dual
from fairweight.metagradient.passes import dense
from fairweight.metagradient.per_layer._kind import Call, Kind, Term
from fairweight.types import map_tensors, tensors


class Other(Kind):
    """A call that no other kind knows: run again by itself where a derivative by its parameters is needed."""

    def __init__(self, call: Call, weights: tuple[Tensor, ...]) -> None:
        self.weights, self.args, self.kwargs, self.function = weights, call.args, call.kwargs, call.function
        self.before: dict[int, Tensor] = {}  # constants by id, as they were before the call
        found = tensors((call.args, call.kwargs))
        self.kept = tuple(t for t in found if not call.learned(t))
        self.device = found[0].device.type
        self.cast = torch.is_autocast_enabled(self.device), torch.get_autocast_dtype(self.device)

    @classmethod
    def of(cls, call: Call) -> Self | None:
        found = {id(t): t for t in tensors((call.args, call.kwargs)) if call.learned(t)}
        return cls(call, tuple(found.values()))

    def at(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The function's outputs with other weights, the rest held constant."""
        other = {key: t.clone() for key, t in self.before.items()}
        other |= {id(own): w for own, w in zip(self.weights, weights, strict=True)}
        args, kwargs = map_tensors((self.args, self.kwargs), lambda t: other.get(id(t), t.detach()))
        with _plainly(self.device), torch.autocast(self.device, dtype=self.cast[1], enabled=self.cast[0]):
            return outputs(self.function(*args, **kwargs))

    def terms(self, gradients: Sequence[Any], places: Sequence[Any]) -> list[Term]:
        return [_Again(self, gradients, places)]

    def tangents(self, along: Sequence[Any]) -> list[Any]:
        """How each output moves with the weights."""
        pairs = list(zip(self.weights, along, strict=True))
        load_tables()
        with suppress(RuntimeError), torch.no_grad(), forward_ad.dual_level():
            made = self.at([w.detach() if v is None else make_dual(w.detach(), v) for w, v in pairs])
            found = [unpack_dual(y).tangent for y in made]
            if any(t is not None for t in found):
                return found
        with torch.enable_grad():  # no formula, said or unsaid: the slopes are linear in the gradient that comes in
            live = [w.detach().requires_grad_(v is not None) for w, v in pairs]
            moving = [(w, v) for w, v in zip(live, along, strict=True) if v is not None]
            return list(double_backward.moved(self.at(live), *zip(*moving, strict=True)))


@contextmanager
def _plainly(device: str) -> Iterator[None]:
    """Kernels with all derivatives: the fast recurrent ones have first derivatives alone."""
    switch: Any = torch.backends.mkldnn
    before, switch.enabled = switch.enabled, False
    try:
        with torch.backends.cudnn.flags(enabled=False) if device == "cuda" else nullcontext():
            yield
    finally:
        switch.enabled = before


class _Again(Term):
    """The function taken again at its own weights, with what arrived at its outputs."""

    def __init__(self, use: Other, gradients: Sequence[Any], places: Sequence[Any]) -> None:
        self.use, self.weights = use, use.weights
        arrived = enumerate(zip(gradients, places, strict=True))
        self.arrived = [(k, g, place) for k, (g, place) in arrived if g is not None and place is not None]

    def slopes(self, ratio: Tensor | None) -> Sequence[Tensor]:
        scaled = [g if ratio is None else place.scale(g, ratio) for _, g, place in self.arrived]
        with torch.enable_grad():
            live = [w.detach().requires_grad_() for w in self.weights]
            made = self.use.at(live)
            outs = [made[k] for k, _, _ in self.arrived]
            found = torch.autograd.grad(outs, live, scaled, allow_unused=True, materialize_grads=True)
        return [dense(s) for s in found]

    def pull(self, along: Sequence[Any]) -> Tensor:
        try:
            moved = self.use.tangents(along)
        except RuntimeError as error:
            if not lacks_derivative(error):
                raise
            return self._one_by_one(along)
        parts = [place.sums(moved[k] * g) for k, g, place in self.arrived if moved[k] is not None]
        return torch.stack(parts).sum(dim=0)

    def _one_by_one(self, along: Sequence[Any]) -> Tensor:
        """The pull from each sample's own slopes, where only first derivatives exist, as for torch.cdist."""  # [B]
        _, g, place = self.arrived[0]
        alone = torch.eye(place.size, dtype=g.dtype, device=g.device)
        each = (zip(self.slopes(one), along, strict=True) for one in alone)
        return torch.stack([sum(((s * v).sum() for s, v in pairs if v is not None), g.new_zeros(())) for pairs in each])


def outputs(value: Any) -> list[Tensor]:
    """The tensors of a function's result that a gradient can come back to, in order."""
    return [t for t in tensors(value) if t.is_floating_point()]
