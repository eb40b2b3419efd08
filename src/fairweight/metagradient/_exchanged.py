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
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    named: dict[str, Tensor] = {}
    for prefix, module in model.named_modules():  # each once, under its first name
        if not module._parameters and not module._buffers:
            continue
        both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in both:
            for key, own in held.items():
                if own is not None:
                    named.setdefault(f"{prefix}.{key}" if prefix else key, own)
                    places.append((held, key, own))
    if not tensors.keys() <= named.keys():  # by another of its names
        named.update(model.named_parameters(remove_duplicate=False))
        named.update(model.named_buffers(remove_duplicate=False))
    instead = {id(named[name]): t for name, t in tensors.items()}
    places = [(held, key, own) for held, key, own in places if id(own) in instead]
    try:
        for place, key, own in places:
            place[key] = instead[id(own)]
        yield
    finally:
        for place, key, own in places:
            place[key] = own
