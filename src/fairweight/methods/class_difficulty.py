"""Class-wise difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairweight.constraints import between, constrained, either, one_of
from fairweight.methods import Predict
from fairweight.methods._cells import count_cells
from fairweight.methods._fixed_weights import KnownWeights
from fairweight.types import Samples


@constrained(tau=either(between(0)), measured_on=one_of("exemplar", "train"))
@dataclass(eq=False, repr=False, kw_only=True)
class ClassDifficulty(KnownWeights):
    """Weighs each class by (1 − its accuracy)^τ, measured after every epoch (CDB-W); all alike in the first.

    tau: None takes 2σ(b) with b = max accuracy / (min accuracy + 0.01) − 1, which grows with the gap.
    measured_on: "exemplar", held-out samples as in the paper, or "train".
    """

    tau: float | None = None
    measured_on: Literal["exemplar", "train"] = "exemplar"

    paper = "Sinha, Ohashi, Nakamura 2020, arXiv 2010.01824"
    needs = frozenset({"exemplar set"})
    _kept = ("_table",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs = frozenset({"exemplar set"}) if self.measured_on == "exemplar" else frozenset()

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
