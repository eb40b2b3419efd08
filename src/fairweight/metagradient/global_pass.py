"""One forward pass over the batches of all ranks: the step of one process on the batches side by side.

What a method sees is the global batch: everybody's losses, with the rank's own live. A gradient by parameters is then
the sum over ranks of what each finds, because what arrives at a rank's own losses is already global; and what belongs
to each sample is found where the sample is, and gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar
from zlib import crc32

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.metagradient.model import Parameters, data_parallel
from fairweight.metagradient.passes import ForwardPass, dense, write_slopes
from fairweight.ranks import Ranks, Unseen
from fairweight.types import Batch

_USED = "/used"  # beside the parameters' names: on how many ranks each has a gradient
_NAMES = ("labels", "groups", "rows", "shares")


@dataclass(frozen=True)
class AllRanks:
    """The batches of all ranks side by side: labels, groups, rows and shares; inputs stay where they are."""

    ranks: Ranks
    batch: Batch
    exemplar: Batch | None
    in_parts: bool = False  # whether any rank has more than one micro-batch, or no sample

    @classmethod
    def of(
        cls, ranks: Ranks, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, steps: int,
        in_parts: bool,
    ) -> AllRanks:  # fmt: skip
        """Gather what the batches say of their samples; refuse ranks that do not do the same."""
        columns: list[Tensor | None] = [getattr(b, name, None) for b in (batch, exemplar) for name in _NAMES]
        present = [int(column is not None) for column in columns]
        must_agree = {
            "their learning rates": [g["lr"] for g in optimizer.param_groups if not isinstance(g["lr"], Tensor)],
            "their optimizer": type(optimizer).__name__,
            "how many steps their method has taken": steps,
            "the types of what they give": [getattr(column, "dtype", None) for column in columns],
        }
        marks = [crc32(repr(value).encode()) for value in must_agree.values()]
        own = [*present, *marks]
        in_parts = in_parts or len(batch) == 0  # a wrapper would count layers that only stand-in exemplars go through
        largest = ranks.largest([*own, *(-m for m in own), int(in_parts)])
        differ = [largest[k] != -largest[len(own) + k] for k in range(len(own))]
        for k, name in enumerate(_NAMES * 2):
            what = "an exemplar batch" if k == 4 else f"{'the exemplar ' if k > 4 else ''}Batch({name}=...)"
            if differ[k]:
                raise BadInput(f"Some ranks gave {what} and others did not; give it on every rank or on none.")
        for name, differs in zip(must_agree, differ[len(present) :], strict=True):
            if differs:
                raise BadInput(f"Ranks differ in {name}; do the same on every rank.")
        gathered = ranks.gather([column for column in columns if column is not None])
        joined = iter([torch.cat(parts) for parts in zip(*gathered, strict=True)])
        whole = [next(joined) if g else None for g in present]
        return cls(ranks, _batch(*whole[:4]), None if exemplar is None else _batch(*whole[4:]), bool(largest[-1]))

    def filled(self, batches: Sequence[Batch], exemplar: Batch | None) -> Sequence[Batch]:
        """The batches; where a rank has no sample, its exemplars are run in their place, and left out."""
        if len(batches[0]) or exemplar is None or not len(exemplar) or isinstance(batches[0].inputs, Unseen):
            return batches
        return [replace(batches[0], inputs=Unseen(exemplar.inputs, len(exemplar)))]

    def live(self, *own: Tensor) -> list[Tensor]:
        """The tensors of all ranks side by side, this rank's with their graph; in one exchange."""
        everybody = zip(*self.ranks.gather(own), strict=True)
        return [
            torch.cat([mine if rank == self.ranks.rank else part for rank, part in enumerate(parts)])
            for mine, parts in zip(own, everybody, strict=True)
        ]


def _batch(labels: Tensor | None, *others: Tensor | None) -> Batch:
    assert labels is not None
    return Batch(labels, labels, *others)


@dataclass(kw_only=True)
class GlobalPass(ForwardPass):
    """A pass with the batch and losses of all ranks, and their logits once asked for; this rank's own have a graph."""

    own: ForwardPass
    all_ranks: AllRanks
    wrapper: nn.Module | None  # DistributedDataParallel, where it sums the gradients of the real step
    all_correct: Tensor  # [B] whether each prediction equals its label
    _logits: Tensor = field(init=False)  # this rank's until those of all are asked for

    whole: ClassVar[bool] = False

    @classmethod
    def of(cls, own: ForwardPass, all_ranks: AllRanks, model: nn.Module) -> GlobalPass:
        """The pass of all ranks, from this rank's own."""
        losses, correct = all_ranks.live(own.losses, own.correct)
        wrapper = data_parallel(model) if own.by_wrapper else None
        fields_of_own = {f.name: getattr(own, f.name) for f in fields(ForwardPass)}
        fields_of_own |= {"batch": all_ranks.batch, "losses": losses, "solution": None}
        return cls(**fields_of_own, own=own, all_ranks=all_ranks, wrapper=wrapper, all_correct=correct)

    @property  # type: ignore[misc]
    def logits(self) -> Tensor:
        """Logits of all ranks, [B, K], gathered when first asked for: few methods need K numbers a sample."""
        if self._logits is self.own.logits:
            (self._logits,) = self.all_ranks.live(self.own.logits)
        return self._logits

    @logits.setter
    def logits(self, value: Tensor) -> None:
        self._logits = value

    @property
    def device(self) -> torch.device:
        return self.own.device

    @property
    def correct(self) -> Tensor:
        return self.all_correct

    @property
    def ranks(self) -> Ranks:
        """The processes that take part."""
        return self.all_ranks.ranks

    @property
    def keeps_graph(self) -> bool:  # type: ignore[override]
        return self.own.keeps_graph

    @property
    def root(self) -> Tensor:
        return self.own.root

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        return self.ranks.sum(self.own.slopes(self._summed(total), moving))

    def each(self, find: Callable[[ForwardPass], Tensor], *, graph: bool = False) -> Tensor:
        return torch.cat([theirs[0] for theirs in self.ranks.gather([self.own.each(find, graph=graph)])])

    def exemplars(self, exemplar: Batch) -> Batch:
        assert self.all_ranks.exemplar is not None
        return self.all_ranks.exemplar

    def exemplar_losses(self, losses: Tensor) -> Tensor:
        return self.all_ranks.live(losses)[0]

    def summed(self, direction: Parameters) -> Parameters:
        return self.ranks.sum(direction)

    def backward(self, total: Tensor) -> None:
        total = self._summed(total)  # the weights are of all ranks; only this rank's losses have a graph
        if self.wrapper is not None:
            self.ranks.agree()  # what follows is the wrapper's own exchange, in which no rank can say that it failed
            self.own.backward(total * self.ranks.size)  # the wrapper takes the mean over ranks
            return
        before = {name: p.grad for name, p in self.parameters.items()}
        for p in self.parameters.values():
            p.grad = None
        try:
            self.own.backward(total)
            seen = len(self.own.batch) > 0  # else exemplars were run in place of samples, and a use of theirs is none
            slopes = {name: p.grad if seen else None for name, p in self.parameters.items()}
        finally:
            for name, p in self.parameters.items():
                p.grad = before[name]
        used = torch.tensor([slope is not None for slope in slopes.values()], dtype=torch.float64)
        filled = {name: torch.zeros_like(p) if (slope := slopes[name]) is None else dense(slope)
                  for name, p in self.parameters.items()}  # fmt: skip
        summed = self.ranks.sum({**filled, _USED: used})
        counts = summed.pop(_USED).tolist()
        write_slopes(self.parameters, {name: s for (name, s), n in zip(summed.items(), counts, strict=True) if n})
