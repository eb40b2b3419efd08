"""A torch DataLoader in the place of a training set: its batches as they come, its samples by row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from fairweight.errors import BadInput
from fairweight.metagradient.model import RandomState
from fairweight.methods import Reweighter
from fairweight.sampling import generator
from fairweight.training.batches import Batches
from fairweight.training.with_rows import Stream, to_batch
from fairweight.types import Batch


class LoaderSamples:
    """The samples behind a DataLoader whose dataset says its rows; labels are read in one pass when asked for."""

    def __init__(self, loader: DataLoader[Any], num_samples: int) -> None:
        self.loader, self._num_samples = loader, num_samples
        self.streams = isinstance(loader.dataset, IterableDataset)

    def __len__(self) -> int:
        return self._num_samples if self.streams else len(self.loader.dataset)  # type: ignore[arg-type]

    @property
    def labels(self) -> Tensor:  # [N]
        return self._columns[0]

    @property
    def groups(self) -> Tensor | None:  # [N]
        return self._columns[1]

    def take(self, index: Tensor) -> Batch:
        if self.streams:
            raise BadInput("A dataset that is iterated gives no single rows; give fit one that is asked by index.")
        rows = torch.nonzero(index).flatten() if index.dtype == torch.bool else index
        collate: Any = self.loader.collate_fn
        return to_batch(collate([self.loader.dataset[i] for i in rows.tolist()]))

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor | None]:
        dataset: Any = self.loader.dataset
        whole = dataset.undivided() if isinstance(dataset, Stream) else dataset  # not this rank's part alone
        plain: Any = DataLoader(whole, 256, collate_fn=self.loader.collate_fn)
        labels, groups = torch.zeros(len(self), dtype=torch.int64), None
        with RandomState.now(torch.device("cpu")).replayed():  # a DataLoader draws from the stream when it begins
            for batch in map(to_batch, plain):
                assert batch.rows is not None
                if int(batch.rows.max()) >= len(self):
                    raise BadInput(
                        f"The loader gives row {int(batch.rows.max())} and the method was made for {len(self)} "
                        "samples; give it num_samples."
                    )
                labels[batch.rows] = batch.labels
                if batch.groups is not None:
                    groups = torch.full_like(labels, -1) if groups is None else groups
                    groups[batch.rows] = batch.groups
        return labels, groups


class LoaderBatches(Batches):
    """The batches of a loader, in its own order; of several ranks each has a loader over its own part."""

    def _open(self, train: LoaderSamples) -> None:
        self.loader, self._draws_on = train.loader, torch.device("cpu")
        self._last = torch.empty(0, dtype=torch.int64)
        self._rows_checked, self._num_samples = self._ranks is None, len(train)

    def __len__(self) -> int:
        loader = self.loader
        if not isinstance(loader.dataset, Stream) or loader.batch_size is None:
            return len(loader)
        # torch can only guess, and knows of no ranks
        return loader.dataset.batches(
            self._num_samples, loader.batch_size, loader.num_workers, drop_last=loader.drop_last
        )

    def rows(self, step: int) -> Tensor:  # [B]
        return self._last

    def _epoch_from(self, epoch: int, position: int) -> Iterator[Batch]:
        for sampler in (self.loader.sampler, self.loader.batch_sampler):
            set_epoch: Any = getattr(sampler, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
        random = RandomState.now(torch.device("cpu"))
        # A stream of its own: the order depends on the epoch, not on what the model has drawn. A sampler makes it when
        # the first batch is asked for, so that batch is read here, and so are those before the position.
        torch.manual_seed(generator("loader", self._options.seed, epoch).initial_seed())
        try:
            stream = map(to_batch, self.loader)
            read = deque(islice(stream, max(position, 1)), maxlen=1)
        finally:
            random.restore()
        for batch in chain(() if position else read, stream):
            assert batch.rows is not None
            self._last = batch.rows
            if not self._rows_checked:
                self._check_rows_differ(batch.rows)
            yield batch
        while isinstance(self.loader.dataset, Stream):  # a rank whose part is shorter goes on without samples
            if self._ranks is None:
                problem = f"The stream ended before {self._num_samples:,} samples came"
                raise BadInput(f"{problem}; make the method with num_samples as many as it has.")
            first = next(map(to_batch, self.loader), None)
            if first is None:
                raise BadInput("A rank has no sample of the stream; start fewer ranks.")
            yield first.take(torch.arange(0))

    def _check_rows_differ(self, rows: Tensor) -> None:
        assert self._ranks is not None
        self._rows_checked = True
        others = [theirs[0] for k, theirs in enumerate(self._ranks.gather([rows])) if k != self._ranks.rank]
        if len(rows) > 1 and any(torch.equal(rows.sort()[0], other.sort()[0]) for other in others):
            raise BadInput(
                "Every rank draws the same rows; give the DataLoader sampler=DistributedSampler(dataset), so that each "
                "has its own part."
            )


def as_samples(train: Any, reweighter: Reweighter) -> Any:
    """A DataLoader as samples; anything else as it is."""
    return LoaderSamples(train, reweighter.num_samples) if isinstance(train, DataLoader) else train


def begin(method: Reweighter, loader: DataLoader[Any], exemplar: Any = None) -> None:
    """Do for a method what `fit` does before the first step, where a framework draws the batches."""
    if type(method).begin is not Reweighter.begin:
        method.begin(LoaderSamples(loader, method.num_samples), exemplar)
    if type(method).sampling_weights is not Reweighter.sampling_weights and method.sampling_weights() is not None:
        raise BadInput(
            f"{type(method).__name__} draws its own rows, and here the framework does; train it with fw.fit, or let it "
            "multiply losses (through='loss', draws='shuffled')."
        )


def number_of(dataset: Any, asker: str) -> int:
    """The number of a data set's samples on all ranks together; asker: who to name where it is not known."""
    try:
        return len(dataset.undivided() if isinstance(dataset, Stream) else dataset)
    except TypeError:
        raise BadInput(f"The training set does not say how long it is; give {asker}(num_samples=...).") from None
