"""Predictions of a model as it is, touching nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fairweight.metagradient.passes import RandomState, call, predicted, unwrap
from fairweight.types import Samples


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the time being; each module gets its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def logits(model: nn.Module, samples: Samples, batch_size: int = 1024) -> Tensor:
    """The model's logits on every sample, in eval mode."""  # [N, K]
    inner = unwrap(model)
    device = next(inner.parameters()).device
    found = []
    random = RandomState.now(device)
    with torch.no_grad(), evaluating(inner):
        for start in range(0, len(samples), batch_size):
            stop = min(start + batch_size, len(samples))
            batch = samples.take(torch.arange(start, stop, device=samples.labels.device)).to(device)
            found.append(call(inner, batch.inputs, len(batch)).float())
    if random is not None:
        random.restore()
    return torch.cat(found)


def predict(model: nn.Module, samples: Samples, batch_size: int = 1024) -> Tensor:
    """The predicted label of every sample, in eval mode."""  # [N]
    return predicted(logits(model, samples, batch_size))
