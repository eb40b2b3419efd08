"""The random streams of Python and numpy, for models that draw masks or layers from them.

To remember them takes as long as a small layer, so that is done from the moment on at which a model draws.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from torch import nn

drawing: WeakSet[nn.Module] = WeakSet()  # models that have drawn


def streams() -> tuple[Any, Any]:
    """The state of both streams; None for numpy's where it is not imported."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else numpy.random.get_state(legacy=False)


def restore(before: tuple[Any, Any]) -> None:
    """Put both back."""
    random.setstate(before[0])
    if before[1] is not None:
        sys.modules["numpy"].random.set_state(before[1])


@contextmanager
def watched(model: nn.Module) -> Iterator[None]:
    """Note whether a pass of the model draws, and put the streams back."""
    before = streams()
    try:
        yield
    finally:
        if repr(streams()) != repr(before):
            drawing.add(model)
            restore(before)
