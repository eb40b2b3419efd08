"""What goes wrong on one rank: every rank must say the same sentence, and soon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from tests.distributed.cases import N, batches, data, net, part, sharded
from torch import Tensor, nn

import fairweight as fw

REFUSED: dict[str, Callable[[], object]] = {}


def refused(function: Callable[[], object]) -> Callable[[], object]:
    REFUSED[function.__name__] = function
    return function


class FailsOn(nn.Module):
    """Fails on one rank alone, at a call that is counted."""

    def __init__(self, rank: int, call: int) -> None:
        super().__init__()
        self.inner, self.rank, self.call, self.calls = net(), rank, call, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if dist.get_rank() == self.rank and self.calls == self.call:
            raise ArithmeticError("the model fails here")
        found: Tensor = self.inner(x)
        return found


def _step(model: nn.Module, **changed: object) -> object:
    train, exemplar = data()
    batch, chosen = (part(b) for b in batches(0, train, exemplar))
    last = dist.get_rank() == dist.get_world_size() - 1
    batch = replace(batch, **changed) if changed and last else batch  # type: ignore[arg-type]
    return fw.FORML(model, N, gradient="forward").step(batch, chosen, torch.optim.SGD(model.parameters(), lr=0.1))


@refused
def model_fails_in_a_trial() -> object:
    return _step(FailsOn(1, 1))


@refused
def model_fails_in_the_forward_pass() -> object:
    return _step(FailsOn(1, 4))


@refused
def model_fails_on_exemplars() -> object:
    return _step(FailsOn(0, 5))


@refused
def model_fails_in_the_pull() -> object:
    return _step(FailsOn(1, 6))


@refused
def label_beyond() -> object:
    train, exemplar = data()
    own = part(batches(0, train, exemplar)[0]).labels.clone()
    own[0] = 9
    return _step(net(), labels=own)


@refused
def rows_beyond() -> object:
    train, exemplar = data()
    own = part(batches(0, train, exemplar)[0]).rows
    assert own is not None
    return _step(net(), rows=own + N)


@refused
def rows_on_some_ranks() -> object:
    return _step(net(), rows=None)


@refused
def loss_not_finite() -> object:
    train, exemplar = data()
    return _step(net(), inputs=part(batches(0, train, exemplar)[0]).inputs / 0.0)  # type: ignore[operator]


@refused
def other_parameters() -> object:
    model = net()
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-3 * dist.get_rank()
    return _step(model)


@refused
def other_seed_of_the_method() -> object:
    model = net()
    train, exemplar = data()
    batch, chosen = batches(0, train, exemplar)
    method = fw.MetaWeightNet(model, N, seed=dist.get_rank())
    return method.step(part(batch), part(chosen), torch.optim.SGD(model.parameters(), lr=0.1))


@refused
def static_graph() -> object:
    return _step(nn.parallel.DistributedDataParallel(net(), static_graph=True))


@refused
def tensor_parallel() -> object:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return _step(parallelize_module(net(), mesh, {"2": ColwiseParallel()}))


@refused
def precision_of_fully_shard() -> object:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return _step(fully_shard(net(), mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)))


@refused
def fit_of_a_model_in_pieces() -> object:
    train, exemplar = data()
    model = sharded(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return fw.fit(model, optimizer, fw.FORML(model, N), train, exemplar, 1)
