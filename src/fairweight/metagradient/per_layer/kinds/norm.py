"""y = γ x̂ + β, where x̂ is made of each sample alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fairweight.metagradient.per_layer._kind import Call, Kind, Place, Term, broadcast, matched


class Norm(Kind):
    """Scale and shift of layer norm, group norm, RMS norm, and of batch norm by running statistics."""

    functions: ClassVar[frozenset[Any]] = frozenset(
        {torch.layer_norm, torch.group_norm, torch.rms_norm, torch.batch_norm}
    )

    def __init__(
        self,
        call: Call,
        a: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        plain: Callable[[Tensor], Tensor],
        by_channel: bool,
    ) -> None:
        self.call, self.plain, self.by_channel = call, plain, by_channel
        self.weight = weight if weight is not None and call.learned(weight) else None
        self.bias = bias if bias is not None and call.learned(bias) else None
        self.a = a if self.weight is not None else None
        self.kept = (a,) if self.weight is not None else ()
        self.weights = tuple(w for w in (self.weight, self.bias) if w is not None)

    @classmethod
    def of(cls, call: Call) -> Self | None:
        readers: dict[Any, Callable[..., _Read | None]] = {
            torch.layer_norm: _layer,
            torch.group_norm: _group,
            torch.rms_norm: _rms,
            torch.batch_norm: _batch,
        }
        read = readers[call.function](*call.args, **call.kwargs)
        if read is None:
            return None
        a, weight, bias, plain = read
        return None if call.learned(a) else cls(call, a, weight, bias, plain, call.function in _CHANNELS)

    def of_one(self, g: Tensor, place: Place) -> list[Term]:
        shape = [g.shape[1], *(1,) * (g.ndim - 2)] if self.by_channel else None
        found = []
        if self.weight is not None and self.a is not None:
            found.append(broadcast(self.weight, g * self.plain(matched(self.a.detach(), g)), place, shape))
        if self.bias is not None:
            found.append(broadcast(self.bias, g, place, shape))
        return found


_CHANNELS = (torch.group_norm, torch.batch_norm)
_Read = tuple[Tensor, Tensor | None, Tensor | None, Callable[[Tensor], Tensor]]


def _layer(
    input: Tensor,  # noqa: A002 - torch's name
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> _Read:
    return input, weight, bias, lambda a: torch.layer_norm(a, normalized_shape, None, None, eps)


def _group(
    input: Tensor,  # noqa: A002 - torch's name
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> _Read:
    return input, weight, bias, lambda a: torch.group_norm(a, num_groups, None, None, eps)


def _rms(
    input: Tensor,  # noqa: A002 - torch's name
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> _Read:
    return input, weight, None, lambda a: torch.rms_norm(a, normalized_shape, None, eps)


def _batch(
    input: Tensor,  # noqa: A002 - torch's name
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> _Read | None:
    if training:  # by the batch's own statistics: samples see each other
        return None
    return input, weight, bias, lambda a: torch.batch_norm(a, None, None, mean, var, False, momentum, eps, False)
