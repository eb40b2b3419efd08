"""Parameters that a model's own forward pass writes over, as nn.Embedding(max_norm=...) does.

The real pass may write them, as in plain training; all other passes write copies. What is used is the weight that was
written, and the derivative goes to that.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from weakref import WeakKeyDictionary

import torch
from torch import nn

from fairweight.metagradient.model import Parameters, RandomState, call, exchanged, snapshot, trainable, uncompiled
from fairweight.types import Batch

names: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()  # of every model that was seen to


def spared(
    model: nn.Module, parameters: Parameters, around: AbstractContextManager[object] | None = None
) -> Parameters:
    """The parameters, with copies of those that are written over (frozen ones too); gradients go through the copies.

    around: what watches the pass, which must see what the copies are made of.
    """
    frozen = {name: p for name, p in model.named_parameters() if name in names[model]}
    with around or nullcontext():
        return {name: p.clone() if name in names[model] else p for name, p in {**frozen, **parameters}.items()}


def after_a_pass(model: nn.Module, batch: Batch) -> Parameters:
    """The parameters that move, with copies of what the real pass over this batch would make of them."""
    own = trainable(model)
    if model not in names:
        return own
    copies = spared(model, {name: p.detach() for name, p in own.items()})
    held = {**snapshot(model), **copies}
    with torch.no_grad(), RandomState.now(batch.labels.device).replayed(), exchanged(model, held), uncompiled():
        call(model, batch.inputs, len(batch))
    return {name: copies[name].requires_grad_() if name in names[model] else p for name, p in own.items()}
