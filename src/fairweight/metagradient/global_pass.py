"""One forward pass over the batches of all ranks: the step of one process on the batches side by side.

What a method sees is the global batch: everybody's losses, with the rank's own live. A gradient by parameters is then
the sum over ranks of what each finds, because what arrives at a rank's own losses is already global; and what belongs
to each sample is found where the sample is, and gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.metagradient.model import Parameters, data_parallel
from fairweight.metagradient.passes import ForwardPass, dense, predicted, write_slopes
from fairweight.ranks import Ranks
from fairweight.types import Batch


@dataclass(frozen=True)
class Everyone:
    """The batches of all ranks side by side: labels, groups, rows and shares; inputs stay where they are."""

    ranks: Ranks
    batch: Batch
    exemplar: Batch | None

    @classmethod
    def of(cls, ranks: Ranks, batch: Batch, exemplar: Batch | None) -> Everyone:
        """Gather what the batches say of their samples."""
        columns = [*_columns(batch), *([None] * len(_NAMES) if exemplar is None else _columns(exemplar))]
        given = [int(column is not None) for column in columns]
        seen = ranks.largest([*given, *(1 - g for g in given)])
        for k, name in enumerate((*(f"Batch({n}=...)" for n in _NAMES), "an exemplar batch", *_EXEMPLAR)):
            if seen[k] and seen[len(columns) + k]:
                raise BadInput(f"Some ranks gave {name} and others did not; give it on every rank or on none.")
        found = ranks.gather([column for column in columns if column is not None])
        joined = iter([torch.cat(parts) for parts in zip(*found, strict=True)])
        whole = [next(joined) if g else None for g in given]
        return cls(ranks, _batch(whole[: len(_NAMES)]), _batch(whole[len(_NAMES) :]) if exemplar is not None else None)


_USED = "/used"  # beside the parameters' names: on how many ranks each has a gradient
_NAMES = ("labels", "groups", "rows", "shares")
_EXEMPLAR = tuple(f"the exemplar Batch({name}=...)" for name in _NAMES[1:])


def _columns(batch: Batch) -> list[Tensor | None]:
    return [batch.labels, batch.groups, batch.rows, batch.shares]


def _batch(columns: Sequence[Tensor | None]) -> Batch:
    labels, groups, rows, shares = columns
    assert labels is not None
    return Batch(labels, labels, groups, rows, shares)


def _live(ranks: Ranks, own: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Everybody's parts side by side, the rank's own with its graph."""
    return torch.cat([own if rank == ranks.rank else part for rank, part in enumerate(parts)])


@dataclass
class GlobalPass(ForwardPass):
    """Its batch and losses are everybody's, its logits too once they are asked for; the rank's own are live."""

    own: ForwardPass | None = None
    everyone: Everyone | None = None
    wrapper: nn.Module | None = None  # DistributedDataParallel, where it sums the gradients of the real step
    right: Tensor | None = None  # [B] whether each prediction equals its label
    _logits: Tensor = field(init=False)  # the rank's own until everybody's are asked for

    whole: ClassVar[bool] = False

    @classmethod
    def of(cls, own: ForwardPass, everyone: Everyone, model: nn.Module) -> GlobalPass:
        """The pass of all ranks, from this rank's own."""
        right = predicted(own.logits.detach()) == own.batch.labels
        others = everyone.ranks.gather([own.losses, right])
        kept = {f.name: getattr(own, f.name) for f in fields(ForwardPass)}
        losses = _live(everyone.ranks, own.losses, [theirs[0] for theirs in others])
        kept |= {"batch": everyone.batch, "losses": losses, "solution": None}
        wrapper = data_parallel(model) if own.by_wrapper else None
        return cls(**kept, own=own, everyone=everyone, wrapper=wrapper, right=torch.cat([r for _, r in others]))

    @property  # type: ignore[misc]
    def logits(self) -> Tensor:
        """Everybody's, [B, K]: K numbers a sample, which few methods need, so that asking gathers them."""
        if self._logits is self.mine.logits:
            parts = [theirs[0] for theirs in self.ranks.gather([self.mine.logits])]
            self._logits = _live(self.ranks, self.mine.logits, parts)
        return self._logits

    @logits.setter
    def logits(self, value: Tensor) -> None:
        self._logits = value

    @property
    def device(self) -> torch.device:
        return self.mine.device

    @property
    def correct(self) -> Tensor:
        assert self.right is not None
        return self.right

    @property
    def ranks(self) -> Ranks:
        """The processes that take part."""
        assert self.everyone is not None
        return self.everyone.ranks

    @property
    def mine(self) -> ForwardPass:
        """This rank's own pass."""
        assert self.own is not None
        return self.own

    @property
    def keeps_graph(self) -> bool:  # type: ignore[override]
        return self.mine.keeps_graph

    @property
    def root(self) -> Tensor:
        return self.mine.root

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        return self.ranks.sum(self.mine.slopes(total, moving))

    def each(self, find: Callable[[ForwardPass], Tensor]) -> Tensor:
        return torch.cat([theirs[0] for theirs in self.ranks.gather([self.mine.each(find)])])

    def exemplars(self, exemplar: Batch) -> Batch:
        found = None if self.everyone is None else self.everyone.exemplar
        assert found is not None
        return found

    def exemplar_losses(self, losses: Tensor) -> Tensor:
        return _live(self.ranks, losses, [theirs[0] for theirs in self.ranks.gather([losses])])

    def summed(self, direction: Parameters) -> Parameters:
        return self.ranks.sum(direction)

    def backward(self, total: Tensor) -> None:
        if self.wrapper is not None:
            self.ranks.agree()  # what comes is the wrapper's own exchange, in which nobody can say that he failed
            self.mine.backward(total * self.ranks.size)  # the wrapper takes the mean over ranks
            return
        held = {name: p.grad for name, p in self.parameters.items()}
        for p in self.parameters.values():
            p.grad = None
        try:
            self.mine.backward(total)
            found = {name: p.grad for name, p in self.parameters.items()}
        finally:
            for name, p in self.parameters.items():
                p.grad = held[name]
        used = torch.tensor([slope is not None for slope in found.values()], dtype=torch.float64)
        filled = {name: torch.zeros_like(p) if (slope := found[name]) is None else dense(slope)
                  for name, p in self.parameters.items()}  # fmt: skip
        summed = self.ranks.sum({**filled, _USED: used})
        somewhere = [bool(count) for count in summed.pop(_USED)]
        write_slopes(
            self.parameters, {name: s for (name, s), some in zip(summed.items(), somewhere, strict=True) if some}
        )
