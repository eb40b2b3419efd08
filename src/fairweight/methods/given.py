"""Weights that are known from elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.metagradient.passes import classification_loss
from fairweight.methods._fixed_weights import KnownWeights, Through
from fairweight.types import Loss, Samples

_log = logging.getLogger("fairweight")


class Given(KnownWeights):
    """Weighs each sample by a number that is given, such as what another run learned, and learns nothing itself.

    weights: one per training sample, by row, 0 or more, on any common scale; None counts all alike.
    """

    needs = frozenset({"weights"})
    _kept = ("_each",)
    paper = "importance weighting; for weights that were learned: a second training with them fixed"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        weights: Sequence[float] | Tensor | None = None,
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        if weights is None:
            return
        try:  # an array or a column of a frame is a list of numbers too
            plain = weights if isinstance(weights, Tensor) else torch.tensor(list(weights))
            each = plain.detach().to(self.device, torch.float32, copy=True)
        except (TypeError, ValueError) as error:
            what = f"is {type(weights).__name__} ({error})"
            raise BadInput(f"Given(weights=...) {what}; give one number per training sample.") from error
        if each.shape != (num_samples,):
            what = f"has shape {tuple(each.shape)} for {num_samples} training samples"
            raise BadInput(f"Given(weights=...) {what}; give one number for each, by row.")
        if not bool(each.isfinite().all()) or bool((each < 0).any()) or not bool((each > 0).any()):
            raise BadInput("Given(weights=...): give finite numbers from 0, at least one of them above it.")
        self._each = each
        self.needs = frozenset()

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        if self._each is None:
            _log.warning(
                "Given has no weights, so every sample counts alike; give weights=..., or let `fairweight refit RUN` "
                "take those that a run has learned."
            )
