"""Other tensors in the places of a model's own, for the time of a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def exchanged(model: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Parameters and buffers by name, each wherever the model holds it; the model's own come back whatever happens.

    Every place is exchanged once, so a layer that is reachable under two names gets back what it had.
    """
    named: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    named.update(model.named_buffers(remove_duplicate=False))
    instead = {id(named[name]): t for name, t in tensors.items()}
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    for module in model.modules():  # each once, whatever its names
        both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in both:
            places += [(held, key, own) for key, own in held.items() if own is not None and id(own) in instead]
    try:
        for place, key, own in places:
            place[key] = instead[id(own)]
        yield
    finally:
        for place, key, own in places:
            place[key] = own
