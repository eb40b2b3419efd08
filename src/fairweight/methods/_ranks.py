"""How a method finds the ranks it trains with, and what is refused before they begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.metagradient.model import data_parallel, unwrap
from fairweight.metagradient.passes import Mode
from fairweight.ranks import Group, Ranks


def find_ranks(group: Group, model: nn.Module) -> Ranks | None:
    """The processes of the group, if there are several."""
    return Ranks.find(group, next(iter(unwrap(model).parameters())).device)


def check_alike(ranks: Ranks, model: nn.Module, method: Mapping[str, Any]) -> None:
    """Refuse ranks that start from different parameters, or from different numbers or options of the method."""
    check_model(model, ranks)
    mine = [repr(_plain(value)) for value in ([[p, p.requires_grad] for p in unwrap(model).parameters()], method)]
    for rank, theirs in enumerate(ranks.texts(mine)):
        if theirs[0] != mine[0]:
            raise BadInput(
                f"Rank {rank} starts from other parameters than rank {ranks.rank}, or freezes others; seed every rank "
                "alike before the model is made, or load the same weights on all."
            )
        if theirs[1] != mine[1]:
            raise BadInput(
                f"The method starts from other numbers or options on rank {rank} than on rank {ranks.rank}; give it "
                "the same options and seed on every rank, and load the same state on all."
            )


def _plain(value: Any, deep: int = 6) -> Any:
    """A value as text has it, without what may differ between ranks: addresses, devices, and what is private."""
    if isinstance(value, Tensor):
        wide = (torch.view_as_real(value) if value.is_complex() else value).detach().to(torch.float64)
        return str(value.dtype), tuple(value.shape), float(wide.sum()), float(wide.abs().sum())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if deep == 0 or isinstance(value, torch.device | nn.Module | torch.distributed.ProcessGroup):
        return type(value).__name__
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, deep - 1) for key, inner in value.items() if not str(key).startswith("_")}
    if isinstance(value, tuple | list):
        return [_plain(inner, deep - 1) for inner in value]
    named = getattr(value, "__qualname__", None)  # a function's
    return named if isinstance(named, str) else [type(value).__name__, _plain(getattr(value, "__dict__", {}), deep - 1)]


def check_model(model: nn.Module, ranks: Ranks | None = None) -> None:
    """Refuse layers and wrappers under which the step would not be exact."""
    if any(isinstance(m, nn.SyncBatchNorm) for m in model.modules()):
        raise BadInput(
            "SyncBatchNorm exchanges statistics inside passes that a step takes by itself; use BatchNorm, whose "
            "statistics are each rank's own, or GroupNorm."
        )
    if any(type(m).__name__ == "FullyShardedDataParallel" for m in model.modules()):
        raise BadInput(
            "FullyShardedDataParallel keeps parameters in pieces that cannot be put together for a step; use "
            "fully_shard, DistributedDataParallel, or no wrapper: the step sums gradients over the ranks by itself."
        )
    wrapper = data_parallel(model)
    if wrapper is not None and wrapper._join_config.enable:
        raise BadInput(
            "DistributedDataParallel.join stands in for a rank that has run out of batches in the wrapper's exchanges "
            "alone; leave it out, and give every rank as many batches: one that has no sample left gives an empty one."
        )
    if wrapper is not None and wrapper.static_graph:
        raise BadInput(
            "DistributedDataParallel(static_graph=True) counts on one backward pass a step, and ranks would end with "
            "different parameters; leave static_graph out."
        )
    if wrapper is not None and ranks is not None and _members(wrapper.process_group) != _members(ranks.group):
        raise BadInput(
            "DistributedDataParallel averages over other ranks than the method weighs together; give both the same "
            "process_group."
        )


def _members(group: Any) -> list[int]:
    return sorted(torch.distributed.get_process_group_ranks(group))


def check_step(model: nn.Module, optimizer: torch.optim.Optimizer, *, first: bool) -> None:
    """Refuse a whole step where it would spoil what others do: cut parameters, or decide when gradients are cleared."""
    if first:
        check_model(model)
    state = getattr(optimizer, "gradient_state", None)  # accelerate's
    if state is not None and (getattr(state, "num_steps", 1) > 1 or not getattr(state, "sync_gradients", True)):
        raise BadInput(
            "step() would clear what accelerate has accumulated; call backward(batch, exemplar, optimizer) inside "
            "accelerator.accumulate(model), then optimizer.step() and optimizer.zero_grad()."
        )


def agreed_mode(ranks: Ranks | None, mode: Mode | None) -> Mode:
    """One gradient mode for all ranks: of those that they found by trial, the one that works on most models."""
    if ranks is None:
        assert mode is not None
        return mode
    own = None if mode is None else [mode.name, mode.plain_kernels, mode.reason]
    modes = [Mode(*fields) for fields in ranks.texts(own) if fields is not None]
    if len({(m.name, m.plain_kernels) for m in modes}) == 1:
        return modes[0]
    widest = max(modes, key=lambda m: (_LEAST.index(m.name), m.plain_kernels))
    return Mode(widest.name, widest.plain_kernels, f"what every rank can do; on one of them {widest.reason}")


_LEAST = ("per-layer", "forward", "double-backward", "difference")
