"""Any other function of parameters and samples, such as a recurrent kernel: its own derivatives, taken alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._again import Again, outputs
from fairweight.metagradient.per_layer._kind import Call, Kind
from fairweight.metagradient.per_layer._layout import Place
from fairweight.metagradient.per_layer._term import Term
from fairweight.types import map_tensors


class Other(Kind):
    """A call that no other kind knows: run again by itself where a derivative by its parameters is needed."""

    def __init__(self, call: Call, weights: tuple[Tensor, ...]) -> None:
        self.call, self.weights, self.args, self.kwargs = call, weights, call.args, call.kwargs
        self.function = call.function
        found: list[Tensor] = []
        map_tensors((call.args, call.kwargs), lambda t: found.append(t) or t)  # type: ignore[func-returns-value]
        self.kept = tuple(t for t in found if not call.learned(t))
        self.device = found[0].device.type
        self.cast = torch.is_autocast_enabled(self.device), torch.get_autocast_dtype(self.device)

    @classmethod
    def of(cls, call: Call) -> Self | None:
        found: dict[int, Tensor] = {}

        def see(t: Tensor) -> Tensor:
            if call.learned(t):
                found[id(t)] = t
            return t

        map_tensors((call.args, call.kwargs), see)
        return cls(call, tuple(found.values()))

    def at(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The function's outputs with other weights, the rest held constant."""
        other = {id(own): w for own, w in zip(self.weights, weights, strict=True)}
        args, kwargs = map_tensors((self.args, self.kwargs), lambda t: other.get(id(t), t.detach()))
        with _plainly(self.device), torch.autocast(self.device, dtype=self.cast[1], enabled=self.cast[0]):
            return outputs(self.function(*args, **kwargs))

    def terms(self, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> list[Term]:
        return [Again(self, gradients, places)]


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
