"""Hugging Face accelerate: the step follows `accelerator.accumulate`, and the method goes into its checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairweight.methods import Reweighter
from fairweight.methods._accumulation import Accumulation
from fairweight.types import Batch, StepRecord

MANY = 2**62  # micro-batches: when a step is due is the framework's to say


class Accelerated:
    """A method in a loop of accelerate: micro-batches wait until gradients are synchronised, and make one step."""

    def __init__(self, accelerator: Any, method: Reweighter) -> None:
        self.accelerator, self.method = accelerator, method
        self.state_dict, self.load_state_dict = method.state_dict, method.load_state_dict  # for its checkpoints
        method._accumulation = Accumulation(MANY)

    def backward(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> StepRecord:
        """Add the weighted loss's gradient to `.grad`, in the place of `accelerator.backward(loss)`.

        Inside `accelerator.accumulate(model)` all micro-batches up to the one that synchronises are weighed as one
        batch; the calls before it only add to them. Never clears or steps.
        """
        held = self.method._accumulation
        assert held is not None
        record = self.method.backward(batch, exemplar, optimizer, scaler=getattr(self.accelerator, "scaler", None))
        return self.method._backward_held(held) if self.accelerator.sync_gradients else record

    @property
    def scores(self) -> Tensor | None:
        """One learned score per training sample, where the method keeps any."""  # [N]
        return self.method.scores

    def weights(self) -> Tensor | None:
        """One weight per training sample, mean 1, where the method keeps any."""  # [N]
        return self.method.weights()


def prepare(accelerator: Any, method: Reweighter) -> Accelerated:
    """The method for an accelerator's loop, saved and loaded with its checkpoints.

    Make the method with the model that `accelerator.prepare` gave, then call `backward` on what this returns.
    """
    made = Accelerated(accelerator, method)
    accelerator.register_for_checkpointing(made)
    return made
