"""Plain training."""

from __future__ import annotations

import torch

from fairweight.metagradient.passes import ForwardPass
from fairweight.methods import Reweighter
from fairweight.methods._fixed_weights import even_weights
from fairweight.types import Batch, Weighing


class Uniform(Reweighter):
    """Every sample counts alike: the mean loss of the batch, as in plain training."""

    paper = "empirical risk minimisation"

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """1 / B for each."""
        return Weighing(even_weights(done.losses))
