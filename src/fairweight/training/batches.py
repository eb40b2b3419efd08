"""The batches that each step is given: drawn by row, read ahead where samples lie on a disk, moved and augmented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from fairweight.errors import MissingExemplar
from fairweight.methods import Reweighter
from fairweight.ranks import Ranks
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler, generator
from fairweight.training.options import Augment, FitOptions
from fairweight.types import Batch, Samples, sent


class Batches:
    """The train batch and the exemplar batch of every step, of which each rank has its part; len: batches per epoch."""

    def __init__(
        self,
        train: Any,
        exemplar: Samples | None,
        reweighter: Reweighter,
        augment: Augment | None,
        options: FitOptions,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self._reweighter, self._augment, self._options = reweighter, augment, options
        self._device, self._ranks = device, ranks
        self._reader: Any = None
        self._exemplar = exemplar if "exemplar" in reweighter.needs else None
        if self._exemplar is not None:
            cells, device = Cells.of(self._exemplar.labels, self._exemplar.groups), self._exemplar.labels.device
            self._exemplar_sampler = ExemplarSampler(
                cells, options.per_cell, options.seed, at_least=options.exemplar_batch, device=device
            )
        elif "exemplar" in reweighter.needs:
            raise MissingExemplar(f"{type(reweighter).__name__} learns from an exemplar set; pass exemplar= to fit.")
        self._stream: Iterator[Batch] = iter(())
        self._next: int | None = None  # the step that the stream gives next
        self._drawn: tuple[int, Tensor] | None = None  # (epoch, rows that the method drew, or none)
        self._open(train)

    def _open(self, train: Any) -> None:
        self._train, self._draws_on = train, train.labels.device  # the device that rows are drawn on
        size, seed, drop = self._options.batch_size, self._options.seed, self._options.drop_last
        self._sampler = TrainSampler(len(train), size, seed, drop_last=drop, device=self._draws_on)

    def __len__(self) -> int:
        return len(self._sampler)

    def rows(self, step: int) -> Tensor:
        """Rows of the train batch: every row once an epoch, unless the method draws its own."""  # [B]
        epoch, position = divmod(step, len(self))
        if self._drawn is None or self._drawn[0] != epoch:
            weights, drawn = (
                self._reweighter.sampling_weights(),
                torch.empty(0, dtype=torch.int64, device=self._draws_on),
            )
            if weights is not None:
                stream, count = generator("weighted", self._options.seed, epoch), self._sampler.num_samples
                drawn = sent(torch.multinomial(weights.cpu().double(), count, True, generator=stream), self._draws_on)
            self._drawn = epoch, drawn
        drawn, size = self._drawn[1], self._sampler.batch_size
        return drawn[position * size : (position + 1) * size] if len(drawn) else self._sampler.rows(step)

    def train(self, step: int) -> Batch:
        epoch, position = divmod(step, len(self))
        if step != self._next or position == 0:
            self._stream = self._epoch_from(epoch, position)
        self._next = step + 1
        return self._augmented(next(self._stream).to(self._device), "augment", step)

    def _epoch_from(self, epoch: int, position: int) -> Iterator[Batch]:
        """Batches of an epoch from this position on, read ahead where samples can be, but not beyond its end.

        The rows of the next epoch may depend on what is learned in this one.
        """
        start = epoch * len(self)
        order = (self._part(self.rows(step)) for step in range(start + position, start + len(self)))
        if not hasattr(self._train, "read_ahead"):
            return map(self._train.take, order)
        self._reader = self._train.read_ahead() if self._reader is None else self._reader
        return cast(Iterator[Batch], self._reader.batches(order))

    def exemplar(self, step: int) -> Batch | None:
        if self._exemplar is None:
            return None
        rows = self._part(torch.arange(len(self._exemplar_sampler))) if self._ranks is not None else None
        batch = self._exemplar_sampler.batch(self._exemplar, step, rows).to(self._device)
        return self._augmented(batch, "augment exemplars", step) if self._options.augment_exemplars else batch

    def _part(self, drawn: Tensor) -> Tensor:
        return drawn if self._ranks is None else drawn.tensor_split(self._ranks.size)[self._ranks.rank]

    def _augmented(self, batch: Batch, stream: str, step: int) -> Batch:
        if self._augment is None:
            return batch
        key = () if self._ranks is None else (self._ranks.rank,)  # each rank's samples by draws of their own
        return replace(batch, inputs=self._augment(batch.inputs, generator(stream, self._options.seed, step, *key)))

    def close(self) -> None:
        self._stream, self._next = iter(()), None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def state_dict(self) -> dict[str, Any]:
        """The rows that the method drew for this epoch; all other draws follow from the seed and the step."""
        return {"drawn": self._drawn}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self._drawn = None if saved["drawn"] is None else (saved["drawn"][0], saved["drawn"][1].to(self._draws_on))
