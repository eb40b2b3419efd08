"""Hugging Face accelerate: the step follows `accelerator.accumulate`, and the method goes into its checkpoints."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.methods import Reweighter
from fairweight.methods._accumulation import Accumulation
from fairweight.ranks import Unseen
from fairweight.training.with_rows import Stream
from fairweight.types import Batch, StepRecord

MANY = 2**62  # micro-batches: when a step is due is the framework's to say


class Accelerated:
    """A method in a loop of accelerate: micro-batches wait until gradients are synchronised, and make one step."""

    def __init__(self, accelerator: Any, method: Reweighter) -> None:
        self.accelerator, self.method = accelerator, method
        self.state_dict, self.load_state_dict = method.state_dict, method.load_state_dict  # for its checkpoints
        method._accumulation = Accumulation(MANY)
        self._loader: Any = None  # that batches come from; its last one may be run after it has ended

    def backward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, last: bool | None = None
    ) -> StepRecord:
        """Add the weighted loss's gradient to `.grad`, in the place of `accelerator.backward(loss)`.

        Inside `accelerator.accumulate(model)` all micro-batches up to the one that synchronises are weighed as one
        batch; the calls before it only add to them. Never clears or steps. last: whether this is the last batch of an
        epoch; None: where accelerate says so.
        """
        accumulation = self.method._accumulation
        assert accumulation is not None
        batch = self._without_repeated(
            batch, self.accelerator.gradient_state.end_of_dataloader if last is None else last
        )
        record = self.method.backward(batch, exemplar, optimizer, scaler=getattr(self.accelerator, "scaler", None))
        return self.method._backward_held(accumulation) if self.accelerator.sync_gradients else record

    def _without_repeated(self, batch: Batch, last: bool) -> Batch:
        """The batch without rows that accelerate repeats at the end of an epoch, so that processes have equal parts."""
        active = self.accelerator.gradient_state.active_dataloader
        loader = self._loader = self._loader if active is None else active
        if self.accelerator.num_processes == 1 or loader is None:
            return batch
        if isinstance(loader.dataset, Stream) and loader.dataset.part is None:
            raise BadInput("accelerate divides this stream too; call accelerator.prepare first, and fw.prepare then.")
        if isinstance(getattr(loader.dataset, "dataset", None), Stream) and not isinstance(loader.dataset, Stream):
            raise BadInput("accelerate repeats some samples of a stream here; leave dispatch_batches=False out.")
        if not last or not self.accelerator.even_batches or loader.drop_last:
            return batch
        size, sampler, total = loader.remainder, loader.batch_sampler, 0  # size: of the last batch of all processes
        while hasattr(sampler, "batch_sampler"):  # inside accelerate's own
            if hasattr(sampler, "split_batches"):
                total = sampler.batch_size * (1 if sampler.split_batches else sampler.num_processes)
            sampler = sampler.batch_sampler
        if total and isinstance(getattr(sampler, "sampler", None), Sized):  # which may draw more or less than all
            size = len(sampler.sampler) % total
        count = size - self.accelerator.process_index * len(batch) if size > 0 else len(batch)
        if count > 0:
            return batch if count >= len(batch) else batch.take(torch.arange(count, device=batch.labels.device))
        empty = batch.take(torch.arange(0, device=batch.labels.device))
        return replace(empty, inputs=Unseen(batch.inputs, len(batch)))

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
    for loader in getattr(accelerator, "_dataloaders", ()):
        if isinstance(loader.dataset, Stream):
            loader.dataset.part = (0, 1)  # accelerate divides it
    accelerated = Accelerated(accelerator, method)
    accelerator.register_for_checkpointing(accelerated)
    return accelerated
