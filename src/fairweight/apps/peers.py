"""FORML's exact step as it is written with the libraries that differentiate through an optimizer; for `bench` alone."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairweight.metagradient import ForwardPass, Mode, Solution, forward
from fairweight.metagradient.passes import call
from fairweight.metagradient.solve import evaluate
from fairweight.methods import current_lr
from fairweight.methods.forml import FORML
from fairweight.types import Batch


class _Peer(FORML):
    """The virtual step by a library; then, as its users write it, the real step with a forward pass of its own."""

    library = ""

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """The gradient of the objective after the virtual step, in the scores."""
        raise NotImplementedError

    def forward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, check: bool = True
    ) -> ForwardPass:
        """The virtual step first, then a forward pass for the real one."""
        assert exemplar is not None
        self.mode = Mode(self.library)
        scores = self._batch_scores(batch).clone().requires_grad_()
        with torch.enable_grad():
            found = self.virtual(batch, exemplar, scores, current_lr(optimizer))
        return replace(forward(self.model, batch, self.loss, check=check), solution=found)

    def _after(self, model: Any, exemplar: Batch, scores: Tensor) -> Solution:
        held = self.loss(call(model, exemplar.inputs, len(exemplar)), exemplar.labels)
        value = evaluate(self.objective, held, exemplar)
        (gradient,) = torch.autograd.grad(value, scores)
        return Solution(gradient.detach(), value.detach(), held.detach())

    def _weighted(self, model: Any, batch: Batch, scores: Tensor) -> Tensor:
        losses = self.loss(call(model, batch.inputs, len(batch)), batch.labels)
        return (self.form.weights(scores) * losses).sum()


class HigherStep(_Peer):
    """With higher: a functional copy of the model and a differentiable optimizer."""

    library = "higher"

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """Inside its inner-loop context."""
        higher: Any = importlib.import_module("higher")
        plain = torch.optim.SGD(self.model.parameters(), lr=lr)
        with higher.innerloop_ctx(self.model, plain) as (twin, steps):
            steps.step(self._weighted(twin, batch, scores))
            return self._after(twin, exemplar, scores)


class TorchOptStep(_Peer):
    """With TorchOpt: the model's parameters are moved differentiably, and put back."""

    library = "torchopt"

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """Between extracting and recovering the state."""
        torchopt: Any = importlib.import_module("torchopt")
        kept = torchopt.extract_state_dict(self.model, by="reference")
        buffers = [b.clone() for b in self.model.buffers()]
        steps = torchopt.MetaSGD(self.model, lr=lr)
        try:
            steps.step(self._weighted(self.model, batch, scores))
            return self._after(self.model, exemplar, scores)
        finally:
            torchopt.stop_gradient(self.model)
            torchopt.recover_state_dict(self.model, kept)
            with torch.no_grad():
                for buffer, value in zip(self.model.buffers(), buffers, strict=True):
                    buffer.copy_(value)


def installed() -> list[type[_Peer]]:
    """The peers whose library is there."""
    return [peer for peer in (HigherStep, TorchOptStep) if importlib.util.find_spec(peer.library) is not None]
