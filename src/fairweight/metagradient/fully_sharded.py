"""Models whose parameters lie in pieces on several ranks (`fully_shard`): put together for the time of a step.

A step asks for the model at other parameters than its own, and goes back through it in other ways than one backward
pass. So parameters are gathered before it, `fully_shard`'s own hooks rest meanwhile, and every rank keeps its piece of
the gradients. Between steps each rank holds its piece of parameters, gradients and optimizer state alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput


@contextmanager
def gathered(model: nn.Module, optimizer: torch.optim.Optimizer, *, alone: bool = False) -> Iterator[None]:
    """Whole parameters in the model and in the optimizer's groups; gradients come back in pieces."""
    sharding: list[Any] = [m for m in model.modules() if hasattr(type(m), "_get_fsdp_state")]
    for module in sharding:
        module.reshard()  # the outermost one stays together after a forward pass
    if not any(_in_pieces(p) for p in model.parameters()):
        yield
        return
    if alone:
        raise BadInput("Ranks share the parameters of fully_shard, and must step together; leave process_group out.")
    _check(model, sharding)
    wholes: dict[int, nn.Parameter] = {}
    for p in model.parameters():
        if _in_pieces(p):
            wholes[id(p)] = nn.Parameter(p.full_tensor().detach(), requires_grad=p.requires_grad)  # type: ignore[attr-defined]
    places = [(m._parameters, key, p) for m in model.modules() for key, p in m._parameters.items() if id(p) in wholes]
    groups = [(group, group["params"]) for group in optimizer.param_groups]
    hooks = [(held, dict(held)) for m in model.modules() for held in (m._forward_pre_hooks, m._forward_hooks)]
    try:
        for place, key, own in places:
            place[key] = wholes[id(own)]
        for group, own_params in groups:
            group["params"] = [wholes.get(id(p), p) for p in own_params]
        for held, all_of_them in hooks:
            for number, hook in all_of_them.items():
                if str(getattr(hook, "__module__", "")).startswith("torch.distributed.fsdp"):
                    del held[number]
        yield
    finally:
        for held, all_of_them in hooks:
            held.clear()
            held.update(all_of_them)
        for group, own_params in groups:
            group["params"] = own_params
        for place, key, own in places:
            place[key] = own
    for own in {id(p): p for _, _, p in places}.values():
        if own is not None and (slope := wholes[id(own)].grad) is not None:
            piece = _piece(slope, own)
            own.grad = piece if own.grad is None else own.grad + piece


def _in_pieces(p: Tensor) -> bool:
    return type(p).__name__ == "DTensor"


def _piece(whole: Tensor, like: Any) -> Tensor:
    from torch.distributed.tensor import DTensor, Replicate

    everywhere = [Replicate()] * like.device_mesh.ndim
    spread = DTensor.from_local(whole, like.device_mesh, everywhere, run_check=False)
    found: Tensor = spread.redistribute(placements=like.placements)  # every rank takes its part of what it has
    return found


def _check(model: nn.Module, sharding: list[Any]) -> None:
    ours: set[int] = set()
    for module in sharding:
        state = module._get_fsdp_state()
        if state._mp_policy.param_dtype is not None:
            raise BadInput(
                "fully_shard(mp_policy=...) changes the parameters' type inside its own passes, which a step does not "
                "use; leave mp_policy out, and train under torch.autocast."
            )
        several = getattr(state, "_fsdp_param_groups", None)
        for group in [state._fsdp_param_group] if several is None else several:
            ours |= {id(p.sharded_param) for p in (() if group is None else group.fsdp_params) if not p.is_dtensor}
    for name, p in model.named_parameters():
        if _in_pieces(p) and id(p) not in ours:
            raise BadInput(
                f"Parameter {name!r} is a DTensor of a tensor-parallel model, and the step needs whole parameters; use "
                "fully_shard, DistributedDataParallel, or no wrapper at all: the step sums gradients over the ranks "
                "by itself."
            )
