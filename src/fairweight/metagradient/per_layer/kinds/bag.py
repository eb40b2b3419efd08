"""y = the sum, mean or largest of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Place, Term
from fairweight.metagradient.per_layer.kinds.other import Other, _Again

_MAX = 2


class Bag(Other):
    """nn.EmbeddingBag, which has no derivative of forward mode: its result is linear in the table, rows as chosen."""

    functions: ClassVar[frozenset[Any]] = frozenset({torch.embedding_bag})

    @classmethod
    def of(cls, call: Call) -> Self | None:
        tensors = [value for value in (*call.args[1:], *call.kwargs.values()) if isinstance(value, Tensor)]
        if not call.args or not call.learned(call.args[0]) or any(map(call.learned, tensors)):
            return None
        return cls(call, (call.args[0],))

    def terms(self, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> list[Term]:
        return [_Rows(self, gradients, places)]


class _Rows(_Again):
    def _tangents(self, along: Sequence[Tensor | None]) -> list[Any]:
        (v,) = along
        assert v is not None
        use = self.use
        mode = use.args[4] if len(use.args) > 4 else use.kwargs.get("mode", 0)
        if mode == _MAX:
            chosen = use.function(use.weights[0].detach(), *use.args[1:], **use.kwargs)[3]  # [bags, width]
            return [torch.where(chosen < 0, 0.0, v.gather(0, chosen.clamp_min(0)))]
        return use.at([v])
