"""One forward pass over several micro-batches: the step of one large batch, in the memory of a small one.

Each micro-batch is run when its graph is needed, and forgotten again; only its logits are kept. Its own batch
statistics, where the model has any, are those of a small batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairweight.metagradient.model import Parameters
from fairweight.metagradient.passes import ForwardPass, virtual_forward
from fairweight.metagradient.per_layer import LayerPass, layer_forward
from fairweight.types import labels_side_by_side


@dataclass
class AccumulatedPass(ForwardPass):
    """Several passes as one: its logits (per layer: its losses) are leaves, and a part is run again when needed."""

    parts: list[ForwardPass] = field(default_factory=list)  # without their graphs

    whole: ClassVar[bool] = False

    @classmethod
    def of(cls, passes: Sequence[Callable[[], ForwardPass]]) -> AccumulatedPass:
        """Run one after the other, each forgotten before the next."""
        parts = [_without_graph(run()) for run in passes]
        first = parts[0]
        batch = labels_side_by_side([part.batch for part in parts])
        logits = torch.cat([part.logits for part in parts])
        if isinstance(first, LayerPass):
            losses = torch.cat([part.losses for part in parts]).requires_grad_()
        else:
            losses = first.loss(logits.requires_grad_(), batch.labels)
        values = {f.name: getattr(first, f.name) for f in fields(ForwardPass)}
        values |= {"batch": batch, "logits": logits, "losses": losses}
        return cls(**{**values, "by_wrapper": False}, parts=parts)  # a wrapper would sum gradients for every part

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        total_slopes: Parameters = {}
        for part, weighted in self._weighted(total):
            for name, slope in part.slopes(weighted, moving).items():
                total_slopes[name] = total_slopes[name] + slope if name in total_slopes else slope
        return total_slopes

    def each(self, find: Callable[[ForwardPass], Tensor], *, graph: bool = False) -> Tensor:
        graph = graph or isinstance(self.parts[0], LayerPass)
        return torch.cat([find(_run_again(part) if graph else part) for part in self.parts])

    def backward(self, total: Tensor) -> None:
        for part, weighted in self._weighted(total):
            part.backward(weighted)

    def _weighted(self, total: Tensor) -> Iterator[tuple[ForwardPass, Tensor]]:
        """Each part with its graph, and a scalar of it with the same gradient as the total; one in memory at a time."""
        shares = torch.split(self._at_root(total), [len(part.batch) for part in self.parts])
        for part, share in zip(self.parts, shares, strict=True):
            part_again = _run_again(part)
            with torch.enable_grad():
                weighted = (part_again.root * share.to(part_again.root.dtype)).sum()
            yield part_again, weighted


def _without_graph(done: ForwardPass) -> ForwardPass:
    no_record: Any = {"seen": None, "graph": None, "record": None} if isinstance(done, LayerPass) else {}
    return replace(done, logits=done.logits.detach(), losses=done.losses.detach(), **no_record)


def _run_again(part: ForwardPass) -> ForwardPass:
    """The pass once more, with the same masks; it moves nothing."""
    with part.random.replayed():
        if isinstance(part, LayerPass):
            return layer_forward(part.model, part.batch, part.loss, part.mode, virtual=True)
        return virtual_forward(part.model, part.batch, part.loss, plain_kernels=part.plain_kernels)
