"""The plans of every model that was tried."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from fairweight.errors import NotDifferentiable
from fairweight.metagradient.model import unwrap
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._trial import Plan, plan, signature
from fairweight.types import Batch, Loss

_plans: WeakKeyDictionary[nn.Module, dict[Any, Plan]] = WeakKeyDictionary()


def tried(model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False, frozen: bool = False) -> Plan:
    """The plan for this model's passes, found by trial; NotDifferentiable says why there is none."""
    inner = unwrap(model)
    key, found = plan(inner, batch, loss, plain_kernels=plain_kernels, frozen=frozen)
    # where one sample lies nobody can tell, and it does not matter; of more of them it says nothing
    _plans.setdefault(inner, {})[key, loss, len(batch) == 1] = found
    return found


def plan_of(seen: Observer, model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False) -> Plan:
    """The plan for a pass that was observed; a pass unlike those before is tried first."""
    known = _plans.setdefault(model, {})
    if (signature(seen), loss, len(batch) == 1) not in known:
        tried(model, batch, loss, plain_kernels=plain_kernels, frozen=seen.frozen is not None)
    return known_plan(seen, model, loss, len(batch))


def known_plan(seen: Observer, model: nn.Module, loss: Loss, size: int) -> Plan:
    """The plan for a pass like one that was tried."""
    found = _plans.get(model, {}).get((signature(seen), loss, size == 1))
    if found is None:
        raise NotDifferentiable(
            "The model takes another way through its layers with a few samples than with this batch, which per-layer "
            "gradients do not support; use gradient='forward'."
        )
    return found
