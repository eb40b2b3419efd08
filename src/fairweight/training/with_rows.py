"""Datasets that say which row each sample is, and what their batches become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from fairweight.errors import BadInput
from fairweight.types import Batch

_LABELS, _GROUPS = ("labels", "label", "y"), ("groups", "group")


class Rowed(NamedTuple):
    """A sample, or a batch of them as torch's DataLoader makes it, with its row."""

    item: Any
    row: Any


def with_rows(dataset: Any, *, sharded: bool = False) -> Any:
    """The same dataset, each of whose samples says which row it is; workers, samplers and shuffling may follow.

    A sample that is a dict gains the entry "rows"; any other becomes a pair (item, row). Of a dataset that is iterated,
    the row is the place in the whole stream, of which every worker and rank takes its part; sharded: the dataset does
    that itself, and rows count on in turn.

    Examples:
        >>> import torch, fairweight as fw
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> loader = DataLoader(fw.with_rows(TensorDataset(torch.eye(4), torch.tensor([0, 1, 0, 1]))), batch_size=2)
        >>> [fw.to_batch(batch).rows.tolist() for batch in loader]
        [[0, 1], [2, 3]]
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return Stream(dataset, sharded)
    return _Rows(dataset)


def to_batch(batch: Any, device: torch.device | str | None = None) -> Batch:
    """A Batch of what a DataLoader over `with_rows(dataset)` gives, such as (inputs, labels) or a dict."""
    if isinstance(batch, Batch):
        return batch if device is None else batch.to(device)
    rows: Any = None
    if isinstance(batch, Rowed):
        batch, rows = batch
    if isinstance(batch, Mapping):
        rest = dict(batch)
        rows = rest.pop("rows", rows)
        labels, groups = _pop_first(rest, _LABELS), _pop_first(rest, _GROUPS)
        inputs: Any = rest["inputs"] if set(rest) == {"inputs"} else rest
    elif isinstance(batch, tuple | list) and len(batch) in (2, 3):
        inputs, labels, groups = (*batch, None)[:3]
    else:
        raise BadInput(
            f"A batch of the loader is {type(batch).__name__}; give (inputs, labels), (inputs, labels, groups), or a "
            "dict with labels."
        )
    if labels is None:
        raise BadInput(f"A batch of the loader has no labels, but {', '.join(map(str, batch))}; give 'labels'.")
    if rows is None:
        raise BadInput(
            "A batch of the loader does not say which rows it holds; wrap its dataset: fw.with_rows(dataset)."
        )
    result = Batch(inputs, _column(labels), None if groups is None else _column(groups), _column(rows))
    return result if device is None else result.to(device)


def _pop_first(values: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((values.pop(name) for name in names if name in values), None)


def _column(values: Any) -> Tensor:
    column = torch.as_tensor(values)
    return column.reshape(-1) if column.ndim == 2 and column.shape[1] == 1 else column


def _with_row(item: Any, row: int) -> Any:
    return {**item, "rows": row} if isinstance(item, Mapping) else Rowed(item, row)


class _Rows(Dataset[Any]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return _with_row(self.dataset[index], int(index))

    def __getattr__(self, name: str) -> Any:
        if name == "dataset" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


class Stream(IterableDataset[Any]):
    """A dataset that is iterated."""

    def __init__(self, dataset: Any, sharded: bool) -> None:
        self.dataset, self.sharded = dataset, sharded
        self.part: tuple[int, int] | None = None  # of how many this is which; None: by rank

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rank, ranks = self.part or _ranks()
        turn, turns = rank * workers + number, ranks * workers
        for position, item in enumerate(self.dataset):
            if self.sharded:
                yield _with_row(item, position * turns + turn)
            elif position % turns == turn:
                yield _with_row(item, position)

    def __len__(self) -> int:
        rank, ranks = self.part or _ranks()
        return len(self.dataset) if self.sharded else len(range(rank, len(self.dataset), ranks))

    def undivided(self) -> Stream:
        """The same on every rank, where somebody else divides it."""
        stream = Stream(self.dataset, self.sharded)
        stream.part = (0, 1)
        return stream

    def batches(self, number: int, size: int, workers: int, *, drop_last: bool) -> int:
        """Batches of an epoch on the rank that has most: each worker of each rank makes them of its own part."""
        ranks, workers = (self.part or _ranks())[1], max(1, workers)
        parts = [len(range(here, number, ranks * workers)) for here in range(workers)]  # of the first rank
        return sum(n // size if drop_last else -(-n // size) for n in parts)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "part": self.part or _ranks()}  # a worker that is spawned knows of no ranks


def _ranks() -> tuple[int, int]:
    started = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if started else (0, 1)
