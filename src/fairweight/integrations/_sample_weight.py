"""Weights that a user brings along, beside those that a method finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.metagradient.choose import Mode
from fairweight.metagradient.passes import ForwardPass
from fairweight.methods import Predict, Reweighter
from fairweight.types import Batch, Samples, Weighing


class SampleWeighted(Reweighter):
    """A method whose weights are multiplied by given ones, mean 1: a sample with a given weight of 2 counts twice."""

    def __init__(self, method: Reweighter, given: Tensor) -> None:
        super().__init__(method.model, method.num_samples, loss=method.loss)
        self.method = method
        self.needs = method.needs
        self.objective = getattr(method, "objective", None)
        self.given = given / given.mean()  # [N]

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode:
        """As the method does."""
        return self.method.prepare(batch, exemplar, optimizer, check)

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing:
        """The method's weights times the given ones; not scaled anew, so that heavy batches move the model more."""
        made = self.method.weigh(done, exemplar, optimizer, check)
        plain = (made.weights * done.losses).sum().detach()
        if made.total is not None and not torch.isclose(made.total.detach(), plain, rtol=1e-3, atol=1e-6):
            raise BadInput("sample_weight multiplies losses, and this method changes them otherwise; leave one out.")
        given = self.given[self.rows(done.batch, check=False)].to(made.weights.dtype)
        return replace(made, weights=made.weights * given, total=None)

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        """As the method does."""
        self.method.begin(train, exemplar)

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """As the method does."""
        self.method.on_epoch(epoch, predict)

    def sampling_weights(self) -> Tensor | None:
        """As the method does."""  # [N]
        return self.method.sampling_weights()

    def weights(self) -> Tensor | None:
        """The method's own; the given ones are known to whoever gave them."""  # [N]
        return self.method.weights()

    @property
    def scores(self) -> Tensor | None:
        """The method's."""  # [N]
        return self.method.scores

    def state_dict(self) -> dict[str, Any]:
        """The method's."""
        return {**super().state_dict(), "method": self.method.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The method's."""
        super().load_state_dict(state)
        self.method.load_state_dict(state["method"])
