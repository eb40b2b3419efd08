"""Batch norm by its running statistics, where the objective is asked for by those."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def norms_frozen(model: nn.Module) -> Iterator[None]:
    """Let batch norm use its running statistics for the time being."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm in norms:
            norm.training = True
