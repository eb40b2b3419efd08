"""A pass over several micro-batches, run again part by part."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from fairweight.metagradient import choose, classification_loss, layer_forward, pull
from fairweight.metagradient.accumulated_pass import AccumulatedPass
from fairweight.types import Batch


def test_statistics_stay_constant_in_every_part() -> None:
    """The pull with batch norm's statistics held constant, as asked for, and not the exact one of each part."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)).double()
    parts = [Batch(torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 3) for _ in range(2)]
    mode = choose(model, parts[0], classification_loss, "per-layer-frozen", layers=True)
    direction = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    alone = [layer_forward(model, part, mode=mode, virtual=True) for part in parts]
    whole = AccumulatedPass.of([partial(layer_forward, model, part, mode=mode, virtual=True) for part in parts])
    torch.testing.assert_close(pull(whole, direction, mode), torch.cat([part.pull(direction) for part in alone]))
