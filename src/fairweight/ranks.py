"""Processes that train together: what they exchange in a step, and how an error of one becomes an error of all.

Every exchange begins with a small header in which each rank says whether it is well and how much it sends. So a rank
that fails takes part in the next exchange of the others, all of them raise its sentence, and nobody waits.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from fairweight import errors
from fairweight.errors import FairweightError, RankLost

# "auto": the one that torch.distributed was started with, if any; None: this process alone.
Group: TypeAlias = "Literal['auto'] | dist.ProcessGroup | None"
_HEADER = 32  # numbers
_WELL, _FAILED = 1, 0
_KNOWN = "_known_to_all_ranks"  # on an error: all ranks know of it


class _Agreed(Exception):
    """An error that every rank knows of; carries the one to raise."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Ranks:
    """The processes of a group, seen from one of them."""

    group: dist.ProcessGroup
    rank: int
    size: int
    device: torch.device  # of what is exchanged: nccl takes a GPU's memory alone

    @classmethod
    def find(cls, group: Group = "auto", device: torch.device | str = "cpu") -> Ranks | None:
        """The ranks of a group; None where this process is alone."""
        if group is None or not dist.is_available() or not dist.is_initialized():
            return None
        found = dist.group.WORLD if isinstance(group, str) else group
        if found is None or dist.get_world_size(found) < 2:
            return None
        where = torch.device("cpu")
        if dist.get_backend(found) == "nccl":
            given = torch.device(device)
            where = given if given.type == "cuda" else torch.device("cuda", torch.cuda.current_device())
        return cls(found, dist.get_rank(found), dist.get_world_size(found), where)

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def gather(self, values: Sequence[Tensor]) -> list[list[Tensor]]:
        """Every rank's tensors, in the order of the ranks; they may differ in their first length.

        All of them travel in one call, bit for bit.
        """
        assert len(values) < _HEADER
        return self._gathered(values, self._headers([len(v) for v in values]))

    def _gathered(self, values: Sequence[Tensor], sizes: list[list[int]]) -> list[list[Tensor]]:
        """sizes: the first length of each tensor of each rank, [ranks][values]."""
        shapes = [[(n, *v.shape[1:]) for n, v in zip(theirs, values, strict=False)] for theirs in sizes]
        width = max(sum(_bytes(s, v) for s, v in zip(row, values, strict=True)) for row in shapes)
        if width == 0:
            return [[v.new_zeros(s) for s, v in zip(row, values, strict=True)] for row in shapes]
        packed = torch.zeros(width, dtype=torch.uint8, device=self.device)
        flat = [v.detach().to(self.device).contiguous().reshape(-1).view(torch.uint8) for v in values if v.numel()]
        mine = torch.cat([packed[:0], *flat])
        packed[: len(mine)] = mine
        return [_unpacked(part, row, values) for part, row in zip(self._all(packed), shapes, strict=True)]

    def sum(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Each tensor summed over the ranks; those of one type travel in one call."""
        self._headers([])
        found: dict[str, Tensor] = {}
        for kind in sorted({v.dtype for v in values.values()}, key=str):
            names = [name for name, v in values.items() if v.dtype == kind]
            packed = torch.cat([values[name].detach().to(self.device).reshape(-1) for name in names])
            with _exchange():
                dist.all_reduce(packed, group=self.group)
            parts = torch.split(packed, [values[name].numel() for name in names])
            for name, part in zip(names, parts, strict=True):
                found[name] = part.reshape(values[name].shape).to(values[name].device)
        return {name: found[name] for name in values}

    def largest(self, values: Sequence[int]) -> list[int]:
        """The largest of each over the ranks."""
        return [max(column) for column in zip(*self._headers(values), strict=True)]

    def texts(self, value: Any) -> list[Any]:
        """A plain value of every rank, by way of JSON."""
        return [_read(theirs) for (theirs,) in self.gather([_written(value)])]

    def agree(self) -> None:
        """Go on where every rank is well; raise the sentence of one that is not."""
        self._headers([])

    def from_first(self, tensors: Sequence[Tensor]) -> None:
        """Copy the first rank's values into these, in place."""
        self._headers([])
        for kind in sorted({t.dtype for t in tensors}, key=str):
            some = [t for t in tensors if t.dtype == kind]
            packed = torch.cat([t.detach().to(self.device).reshape(-1).view(torch.uint8) for t in some])
            with _exchange():
                dist.broadcast(packed, group=self.group, group_src=0)
            with torch.no_grad():
                for t, part in zip(some, torch.split(packed.view(kind), [t.numel() for t in some]), strict=True):
                    t.copy_(part.reshape(t.shape))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Whatever a rank raises inside, every rank raises, at its next exchange."""
        try:
            yield
        except _Agreed as agreed:
            raise agreed.error from None
        except Exception as error:
            if not getattr(error, _KNOWN, False) and dist.is_initialized():  # else the others have left
                try:
                    self._headers([], error)
                except _Agreed as agreed:
                    if _spelled(agreed.error) != _spelled(error):
                        raise agreed.error from error
                setattr(error, _KNOWN, True)
            raise

    def _headers(self, values: Sequence[int], error: Exception | None = None) -> list[list[int]]:
        head = [_WELL if error is None else _FAILED, *values]
        mine = torch.tensor(head + [0] * (_HEADER - len(head)), dtype=torch.int64)
        rows = torch.stack(self._all(mine.to(self.device))).tolist()
        if all(row[0] == _WELL for row in rows):
            return [row[1 : 1 + len(values)] for row in rows]
        raise _Agreed(self._first_error(error))

    def _first_error(self, error: Exception | None) -> Exception:
        message = _written(None if error is None else _spelled(error))
        sizes = [part.tolist() for part in self._all(torch.tensor([len(message)], device=self.device))]
        sentences = [_read(theirs) for (theirs,) in self._gathered([message], sizes)]
        rank, (name, text) = next((k, s) for k, s in enumerate(sentences) if s is not None)
        found = _error(name, text)
        found.add_note(f"raised on rank {rank} of {self.size}")
        setattr(found, _KNOWN, True)
        return found

    def _all(self, mine: Tensor) -> list[Tensor]:
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with _exchange():
            dist.all_gather(found, mine, group=self.group)
        return found


class Unseen(NamedTuple):
    """Stand-in inputs for a rank without samples, since few models run on an empty batch; their logits are dropped."""

    inputs: Any
    size: int


_PIECE = 2**24  # numbers of a shard that are gathered at once


@dataclass(frozen=True)
class Shard:
    """The rows whose numbers this rank keeps: all of them, or every size-th one, from its own rank on."""

    number: int  # of rows
    ranks: Ranks | None = None  # None: all rows are here

    def __len__(self) -> int:
        return self.number if self.ranks is None else len(range(self.ranks.rank, self.number, self.ranks.size))

    def held(self, rows: Tensor) -> tuple[Tensor | slice, Tensor]:
        """Which of the rows are kept here, and where."""
        if self.ranks is None:
            return slice(None), rows
        here = torch.nonzero(rows % self.ranks.size == self.ranks.rank).flatten()
        return here, torch.div(rows[here], self.ranks.size, rounding_mode="floor")

    def read(self, values: Tensor, rows: Tensor) -> Tensor:
        """The numbers of these rows, the same rows on every rank."""  # [B]
        if self.ranks is None:
            return values[rows]
        here, places = self.held(rows)
        found = values.new_zeros(len(rows))
        found[here] = values[places]
        return self.ranks.sum({"values": found})["values"]  # exact: all but one of the summands are 0

    def part(self, whole: Tensor) -> Tensor:
        """This rank's numbers among all."""
        return whole if self.ranks is None else whole[self.ranks.rank :: self.ranks.size]

    def whole(self, values: Tensor) -> Tensor:
        """The numbers of all rows, on the CPU where they lie on several ranks; every rank must call it."""
        if self.ranks is None:
            return values
        found = torch.empty(self.number, dtype=values.dtype)
        longest = len(range(0, self.number, self.ranks.size))
        for start in range(0, longest, _PIECE):
            for rank, (theirs,) in enumerate(self.ranks.gather([values[start : start + _PIECE]])):
                first = rank + start * self.ranks.size
                found[first : first + _PIECE * self.ranks.size : self.ranks.size] = theirs.cpu()
        return found


@contextmanager
def _exchange() -> Iterator[None]:
    """One call of torch.distributed; where a rank has died it fails, and says so in its own way."""
    try:
        yield
    except RuntimeError as error:
        lost = RankLost(
            "Another process of this training no longer answers; see what it said last, then start all of them again."
        )
        setattr(lost, _KNOWN, True)
        raise lost from error


def _written(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _read(text: Tensor) -> Any:
    return json.loads(bytes(text.tolist()))


def _spelled(error: Exception) -> list[str]:
    text = error.sentence.marked if isinstance(error, FairweightError) else str(error)
    return [type(error).__name__, text]


def _error(name: str, text: str) -> Exception:
    """An error of that class and sentence: one of ours, one of Python's, or a plain RuntimeError."""
    for home in (errors, builtins):
        kind = getattr(home, name, None)
        # a StopIteration cannot leave `together`, which is a generator
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, StopIteration):
            with suppress(TypeError):
                return kind(text)
    return RuntimeError(f"{name}: {text}" if text else name)


def _bytes(shape: tuple[int, ...], like: Tensor) -> int:
    return int(torch.Size(shape).numel()) * like.element_size()


def _unpacked(packed: Tensor, shapes: Sequence[tuple[int, ...]], like: Sequence[Tensor]) -> list[Tensor]:
    found, start = [], 0
    for shape, values in zip(shapes, like, strict=True):
        size = _bytes(shape, values)
        # cloned: a view of another type must begin where that type may
        piece = packed[start : start + size].clone().view(values.dtype).reshape(shape)
        found.append(piece.to(values.device))
        start += size
    return found


def join(backend: str, seconds: float = 1800) -> None:
    """Join the processes that torchrun has started; seconds: that they wait for each other.

    As init_process_group does, but ranks that were started again must not find the addresses of those before them.
    """
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    wait = timedelta(seconds=seconds)
    store, rank, size = next(rendezvous("env://", timeout=wait))
    store = PrefixStore(f"attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=wait)
