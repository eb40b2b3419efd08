"""Which rows make up each train batch and each exemplar batch: pure functions of the seed and the step.

Because a draw depends on nothing but (seed, step), a run resumes in the middle of an epoch from its step alone.
"""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairweight.constraints import FLAG, constrained, whole
from fairweight.errors import EmptyCell
from fairweight.types import Batch, Samples, sent

_log = logging.getLogger("fairweight")
AHEAD = 32  # steps whose exemplars are drawn at once: one copy to the device instead of many


@dataclass(frozen=True)
class Cells:
    """Each sample's cell (label x group), with names for people.

    Examples:
        >>> import torch, fairweight as fw
        >>> cells = fw.Cells.of(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), group_names=("a", "b"))
        >>> cells.index.tolist(), cells.counts
        ([0, 1, 2], (1, 1, 1))
    """

    index: Tensor  # [N] int64, -1 where the group is not known
    names: tuple[str, ...]  # one per cell
    counts: tuple[int, ...]  # members per cell

    @classmethod
    def of(
        cls, labels: Tensor, groups: Tensor | None = None, *,
        label_names: tuple[str, ...] | None = None, group_names: tuple[str, ...] | None = None,
    ) -> Cells:  # fmt: skip
        """Cells by label, or by label and group where groups are given; empty ones have no entry."""
        keys = torch.stack([column.cpu() for column in (labels, groups) if column is not None], dim=1)  # [N, 1 or 2]
        known = (keys[:, 1:] >= 0).all(dim=1)
        index = torch.full((len(labels),), -1, dtype=torch.int64)
        if not bool(known.any()):
            return cls(index, (), ())
        unique, index[known], counts = torch.unique(keys[known], dim=0, return_inverse=True, return_counts=True)
        names = []
        for label, *group in unique.tolist():
            parts = [f"label={label_names[label] if label_names else label}"]
            parts += [f"group={group_names[k] if group_names else k}" for k in group]
            names.append(", ".join(parts))
        return cls(index, tuple(names), tuple(counts.tolist()))

    def __len__(self) -> int:
        return len(self.names)


def generator(*key: int | str) -> torch.Generator:
    """A random stream of its own for each key, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


@constrained(num_samples=whole(1), batch_size=whole(1), seed=whole(), drop_last=FLAG)
class TrainSampler:
    """Shuffled epochs: every sample once, in batches; the last one may be smaller, or is dropped where asked.

    One sample left over joins the batch before: alone it has no weight to share, and batch norm refuses it.
    """

    def __init__(
        self, num_samples: int, batch_size: int, seed: int = 0, *,
        drop_last: bool = False, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        self.num_samples, self.seed, self.device = num_samples, seed, torch.device(device)
        self.batch_size = min(batch_size, num_samples)
        self.drop_last = drop_last and num_samples >= batch_size
        self._epoch: int | None = None
        self._order = torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        """Batches per epoch."""
        whole, rest = divmod(self.num_samples, self.batch_size)
        return whole + (1 if rest > 1 and not self.drop_last else 0)

    def rows(self, step: int) -> Tensor:
        """The rows of the batch at this step, counted from the start of the run."""  # [B]
        epoch, position = divmod(step, len(self))
        if epoch != self._epoch:
            order = torch.randperm(self.num_samples, generator=generator("train", self.seed, epoch))
            self._epoch, self._order = epoch, sent(order, self.device)
        last = position == len(self) - 1 and not self.drop_last
        return self._order[position * self.batch_size : self.num_samples if last else (position + 1) * self.batch_size]


@constrained(per_cell=whole(1), seed=whole(), at_least=whole(0), floor=whole(0))
class ExemplarSampler:
    """per_cell members of each cell, none twice in a batch; a cell smaller than that is reused and reported.

    Each cell is walked through in shuffled passes one after the other, so that every exemplar is seen equally often;
    where a batch ends one pass and begins the next, the next begins with members that the batch does not hold yet.
    at_least: the least size of a batch; exemplars beyond per_cell are drawn evenly from all cells.

    Examples:
        >>> import torch, fairweight as fw
        >>> held = fw.Batch(torch.eye(6), torch.tensor([0, 0, 0, 0, 1, 1]))
        >>> sampler = fw.ExemplarSampler(fw.Cells.of(held.labels), per_cell=2)
        >>> sampler.batch(held, step=0).labels.tolist()
        [0, 0, 1, 1]
    """

    def __init__(
        self, cells: Cells, per_cell: int, seed: int = 0, *,
        at_least: int = 0, device: torch.device | str = "cpu", floor: int = 1,
    ) -> None:  # fmt: skip
        if len(cells) == 0:
            raise EmptyCell("The exemplar set has no sample with a known group; give group labels for some of it.")
        for name, count in zip(cells.names, cells.counts, strict=True):
            if count < floor:
                raise EmptyCell(
                    f"{count} exemplars with {name}, fewer than {floor}; lower the floor or drop the group."
                )
        self.cells, self.per_cell, self.seed, self.device = cells, per_cell, seed, torch.device(device)
        counted = zip(cells.names, cells.counts, strict=True)
        self.reused = tuple(name for name, count in counted if count < per_cell)  # too small for as many members
        if self.reused:
            shown = "; ".join(self.reused[:5]) + (" ..." if len(self.reused) > 5 else "")
            message = "%d of %d cells have fewer than %d exemplars and are reused within a batch: %s"
            _log.warning(message, len(self.reused), len(cells), per_cell, shown)
        index = cells.index.cpu()  # draws are made here and sent over many at a time
        self._members = [torch.nonzero(index == k).flatten() for k in range(len(cells))]
        self._ahead: tuple[int, Tensor] | None = None  # (number, rows [AHEAD, E]) of a stretch of steps
        self._passes: list[dict[int, Tensor]] = [{} for _ in self._members]  # the latest orders of each cell
        self._rest = max(0, min(at_least, sum(cells.counts)) - per_cell * len(cells))  # drawn from all cells alike
        self._known = torch.nonzero(index >= 0).flatten() if self._rest else index[:0]
        natural = torch.tensor(cells.counts, dtype=torch.float32)
        share = natural / natural.sum() * len(cells)  # mean 1 over a batch drawn evenly
        self.shares = share.repeat_interleave(per_cell).to(self.device)  # [E], where no rest is drawn
        self._natural, self._cell = share.to(self.device), index.to(self.device)  # [cells], [N]

    def __len__(self) -> int:
        """Exemplars per batch."""
        return self.per_cell * len(self.cells) + self._rest

    def rows(self, step: int) -> Tensor:
        """The positions in the exemplar set drawn at this step, cell by cell."""  # [E]
        stretch, place = divmod(step, AHEAD)
        if self._ahead is None or self._ahead[0] != stretch:
            drawn = torch.stack([self._drawn(s) for s in range(stretch * AHEAD, (stretch + 1) * AHEAD)])
            self._ahead = (stretch, sent(drawn, self.device))
        return self._ahead[1][place]

    def _drawn(self, step: int) -> Tensor:
        drawn = []
        for k, members in enumerate(self._members):
            turn, position = divmod(step * self.per_cell, len(members))
            need = self.per_cell
            while need > 0:
                part = self._pass(k, turn)[position : position + need]
                drawn.append(part)
                turn, position, need = turn + 1, 0, need - len(part)
        return torch.cat([*drawn, self._others(step, torch.cat(drawn))] if self._rest else drawn)

    def _others(self, step: int, held: Tensor) -> Tensor:
        """The rest of a batch: the next ones of a shuffled pass through all that it does not hold yet."""  # [rest]
        turn, position = divmod(step * self._rest, len(self._known))
        order = torch.randperm(len(self._known), generator=generator("exemplar rest", self.seed, turn))
        ahead = self._known[order].roll(-position)
        return ahead[~torch.isin(ahead, held)][: self._rest]

    def _pass(self, k: int, turn: int) -> Tensor:  # [members]
        kept, size = self._passes[k], len(self._members[k])
        if turn not in kept:
            # Every so many passes a batch and a pass begin together: from there on the passes follow from each other.
            first = turn - turn % (self.per_cell // math.gcd(self.per_cell, size))
            for t in range(max((t + 1 for t in kept if first <= t < turn), default=first), turn + 1):
                kept[t] = self._shuffled(k, t)
            for old in [t for t in kept if not first <= t <= turn or t < turn - 1 - self.per_cell // size]:
                del kept[old]
        return kept[turn]

    def _shuffled(self, k: int, turn: int) -> Tensor:
        members = self._members[k]
        order = torch.randperm(len(members), generator=generator("exemplar", self.seed, k, turn))
        order = members[order]
        taken = turn * len(members) % self.per_cell  # what earlier passes gave to the batch in which this one begins
        whole, tail = divmod(taken, len(members))
        if tail == 0:
            return order
        held = torch.isin(order, self._passes[k][turn - 1 - whole][-tail:])
        ahead = torch.nonzero(~held).flatten()[: self.per_cell - taken]
        rest = torch.ones_like(held)
        rest[ahead] = False
        return torch.cat([order[ahead], order[rest]])

    def batch(self, exemplar: Samples, step: int, part: Tensor | None = None) -> Batch:
        """The exemplar batch of this step, with its members' natural shares: its own, or those of the set's cells.

        part: of the batch, these places alone are taken, as one of several ranks does.
        """
        rows = self.rows(step)
        own = slice(None) if part is None else part.to(rows.device)
        drawn = exemplar.take(rows[own])
        if drawn.shares is not None:
            return drawn
        return replace(drawn, shares=(self._shares_of(rows) if self._rest else self.shares)[own])

    def _shares_of(self, rows: Tensor) -> Tensor:
        """What each member of the batch stands for, so that the cells have their natural shares in it."""  # [E]
        cell = self._cell[rows]
        counts = torch.zeros_like(self._natural).index_add_(0, cell, torch.ones_like(cell, dtype=torch.float32))
        return self._natural[cell] * len(rows) / len(self._natural) / counts[cell]
