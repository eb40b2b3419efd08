"""The batches that each step is given: drawn by row, read ahead where samples lie on a disk, moved and augmented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fairweight.errors import MissingExemplar
from fairweight.methods import Reweighter
from fairweight.ranks import Ranks
from fairweight.sampling import ExemplarSampler, TrainSampler, generator
from fairweight.training.options import Augment, FitOptions
from fairweight.types import Batch, Cells, Samples, sent


class ReadsAhead(Protocol):
    """Reads the batches of an order before they are asked for."""

    def batches(self, order: Iterable[Tensor]) -> Iterator[Batch]: ...

    def close(self) -> None: ...


@runtime_checkable
class Slow(Protocol):
    """Samples that lie on a disk and are better read ahead."""

    def read_ahead(self) -> ReadsAhead: ...


class Reader:
    """Reads the train batch of a step and, where samples are slow, the next ones of its epoch meanwhile."""

    def __init__(self, samples: Samples, rows: Callable[[int], Tensor], per_epoch: int) -> None:
        self.samples, self.rows, self.per_epoch = samples, rows, per_epoch
        self._slow = samples if isinstance(samples, Slow) else None  # asked once: the question costs microseconds
        self._ahead: ReadsAhead | None = None
        self._stream: Iterator[Batch] = iter(())
        self._next: int | None = None  # the step that the stream gives next

    def batch(self, step: int) -> Batch:
        """The samples of this step."""
        if self._slow is None:
            return self.samples.take(self.rows(step))
        if self._ahead is None:
            self._ahead = self._slow.read_ahead()
        if step != self._next or step % self.per_epoch == 0:
            # The rows of the next epoch may depend on what is learned in this one: no reading beyond its end.
            end = (step // self.per_epoch + 1) * self.per_epoch
            self._stream = self._ahead.batches(self.rows(s) for s in range(step, end))
        self._next = step + 1
        return next(self._stream)

    def close(self) -> None:
        """Stop reading ahead."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead, self._next = None, None


class ExemplarBatches:
    """The exemplar batch of every step, of which each rank has its part."""

    def __init__(
        self,
        exemplar: Samples | None,
        reweighter: Reweighter,
        augment: Augment | None,
        options: FitOptions,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self._ranks = ranks
        self._reweighter, self._augment, self._options, self._device = reweighter, augment, options, device
        self._exemplar: Samples | None = None
        if not reweighter.needs & {"exemplar", "exemplar groups"}:
            return
        if exemplar is None:
            raise MissingExemplar(f"{type(reweighter).__name__} learns from an exemplar set; pass exemplar= to fit.")
        self._exemplar = exemplar
        self._exemplar_sampler = ExemplarSampler(
            Cells.of(exemplar.labels, exemplar.groups),
            options.per_cell,
            options.seed,
            at_least=options.exemplar_batch,
            device=exemplar.labels.device,
        )

    def exemplar(self, step: int) -> Batch | None:
        """The exemplar batch of this step; None where the method needs none."""
        if self._exemplar is None:
            return None
        own = self._part(torch.arange(len(self._exemplar_sampler))) if self._ranks is not None else None
        batch = self._exemplar_sampler.batch(self._exemplar, step, own).to(self._device)
        return self._augmented(batch, "augment exemplars", step) if self._options.augment_exemplars else batch

    def _part(self, drawn: Tensor) -> Tensor:
        """This rank's part of what all of them draw together."""
        return drawn if self._ranks is None else drawn.tensor_split(self._ranks.size)[self._ranks.rank]

    def _augmented(self, batch: Batch, stream: str, step: int) -> Batch:
        if self._augment is None:
            return batch
        key = () if self._ranks is None else (self._ranks.rank,)  # each rank's samples by draws of their own
        return replace(batch, inputs=self._augment(batch.inputs, generator(stream, self._options.seed, step, *key)))


class Batches(ExemplarBatches):
    """The train batch and the exemplar batch of every step, of which each rank has its part; len: batches per epoch."""

    def __init__(
        self,
        train: Samples,
        exemplar: Samples | None,
        reweighter: Reweighter,
        augment: Augment | None,
        options: FitOptions,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self._where = train.labels.device
        self._sampler = TrainSampler(
            len(train), options.batch_size, options.seed, drop_last=options.drop_last, device=self._where
        )
        self._reader = Reader(train, self._own_rows, len(self._sampler))
        self._drawn: tuple[int, Tensor] | None = None  # (epoch, rows) where the method draws its own, else no rows
        super().__init__(exemplar, reweighter, augment, options, device, ranks)

    def __len__(self) -> int:
        return len(self._sampler)

    def rows(self, step: int) -> Tensor:
        """Rows of the train batch: every row once an epoch, unless the method draws its own."""  # [B]
        epoch, position = divmod(step, len(self))
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = epoch, self._rows_of_method(epoch)
        drawn, size = self._drawn[1], self._sampler.batch_size
        return drawn[position * size : (position + 1) * size] if len(drawn) else self._sampler.rows(step)

    def _own_rows(self, step: int) -> Tensor:
        return self._part(self.rows(step))

    def _rows_of_method(self, epoch: int) -> Tensor:
        weights = self._reweighter.sampling_weights()
        if weights is None:
            return torch.empty(0, dtype=torch.int64, device=self._where)
        stream = generator("weighted", self._options.seed, epoch)
        count = self._sampler.num_samples
        return sent(torch.multinomial(weights.cpu().double(), count, True, generator=stream), self._where)

    def train(self, step: int) -> Batch:
        """The train batch of this step, on the model's device."""
        return self._augmented(self._reader.batch(step).to(self._device), "augment", step)

    def close(self) -> None:
        """Stop reading ahead."""
        self._reader.close()

    def state_dict(self) -> dict[str, Any]:
        """The rows that the method drew for this epoch; all other draws follow from the seed and the step."""
        return {"drawn": self._drawn}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self._drawn = None if saved["drawn"] is None else (saved["drawn"][0], saved["drawn"][1].to(self._where))
