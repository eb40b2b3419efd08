"""Class-wise difficulty."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from fairweight.constraints import between, constrained, either, one_of, whole
from fairweight.metagradient.passes import classification_loss
from fairweight.methods import Predict
from fairweight.methods._cells import count_cells
from fairweight.methods._fixed_weights import THROUGH, KnownWeights, Through
from fairweight.types import Loss, Samples


@constrained(num_samples=whole(1), tau=either(between(0)), measured_on=one_of("exemplar", "train"), through=THROUGH)
class ClassDifficulty(KnownWeights):
    """Weighs each class by (1 − its accuracy)^τ, measured after every epoch (CDB-W); all alike in the first.

    tau: None takes 2σ(b) with b = max accuracy / (min accuracy + 0.01) − 1, which grows with the gap.
    measured_on: "exemplar", held-out samples as in the paper, or "train".
    """

    paper = "Sinha, Ohashi, Nakamura 2020, arXiv 2010.01824"
    needs = frozenset({"exemplar set"})
    _kept = ("_table",)

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        tau: float | None = None,
        measured_on: Literal["exemplar", "train"] = "exemplar",
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        self.tau, self.measured_on = tau, measured_on
        self.needs = frozenset({"exemplar set"}) if measured_on == "exemplar" else frozenset()

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        self.measured(self.measured_on)
        if self._table is None:
            self._table = torch.ones(len(count_cells(train.labels, None)), 1, device=self.device)

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """Measure every class's accuracy and weigh by it."""
        measured = self.measured(self.measured_on)
        assert self._table is not None
        labels, predictions = measured.labels.cpu(), predict(measured).cpu()
        classes = max(len(self._table), int(labels.max()) + 1)
        number = torch.bincount(labels, minlength=classes)
        right = torch.bincount(labels[predictions == labels], minlength=classes)
        weights = difficulty_weights(right, number, self.tau)[: len(self._table)]
        self._table.copy_(weights[:, None])  # in place: a captured graph reads on


def difficulty_weights(right: Tensor, number: Tensor, tau: float | None = None) -> Tensor:
    """One weight per class from how many of its samples are right, mean 1 over the classes that were measured.

    A class that was not measured counts 1; so do all where none errs.
    """  # [K]
    seen = number > 0
    accuracy = right.double() / number.clamp_min(1)
    if not bool(seen.any()):
        return torch.ones(len(number), dtype=torch.float64)
    if tau is None:
        bias = accuracy[seen].max() / (accuracy[seen].min() + 0.01) - 1
        tau = float(2 * torch.sigmoid(bias))
    weights = (1 - accuracy).pow(tau)
    mean = weights[seen].mean()
    return torch.where(seen & (mean > 0), weights / torch.where(mean > 0, mean, torch.ones_like(mean)), 1.0)
