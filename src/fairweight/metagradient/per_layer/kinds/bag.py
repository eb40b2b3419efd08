"""y = the sum, mean or largest of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call
from fairweight.metagradient.per_layer.kinds.other import Other

_MAX = 2


class Bag(Other):
    """nn.EmbeddingBag, which has no derivative of forward mode: its result is linear in the table, rows as chosen."""

    functions: ClassVar[frozenset[Any]] = frozenset({torch.embedding_bag})

    @classmethod
    def of(cls, call: Call) -> Self | None:
        tensors = [value for value in (*call.args[1:], *call.kwargs.values()) if isinstance(value, Tensor)]
        if not call.args or not call.learned(call.args[0]) or any(map(call.learned, tensors)):
            return None
        made = cls(call, (call.args[0],))
        made.sparse = bool(call.args[5] if len(call.args) > 5 else call.kwargs.get("sparse"))
        return made

    def tangents(self, along: Sequence[Any]) -> list[Any]:
        mode = self.args[4] if len(self.args) > 4 else self.kwargs.get("mode", 0)
        if mode != _MAX:
            return self.at(along)
        chosen = self.function(self.weights[0].detach(), *self.args[1:], **self.kwargs)[3]  # [bags, width]
        return [torch.where(chosen < 0, 0.0, along[0].gather(0, chosen.clamp_min(0)))]
