"""What goes wrong on one rank: every rank must say the same sentence, and soon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from tests.distributed.cases import N, batches, data, net, part, sharded
from torch import Tensor, nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

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


def _last() -> bool:
    return dist.get_rank() == dist.get_world_size() - 1


def _step(model: nn.Module, **changed: object) -> object:
    train, exemplar = data()
    batch, chosen = (part(b) for b in batches(0, train, exemplar))
    batch = replace(batch, **changed) if changed and _last() else batch  # type: ignore[arg-type]
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
def joined() -> object:
    model = nn.parallel.DistributedDataParallel(net())
    with model.join():
        return _step(model)


@refused
def frozen_on_one_rank() -> object:
    model = net()
    next(model.parameters()).requires_grad_(not _last())
    return _step(model)


@refused
def other_imaginary_parts() -> object:
    model = net()
    model.register_parameter("complex", nn.Parameter(torch.complex(torch.ones(3), torch.ones(3) * (1 + _last()))))
    return _step(model)


@refused
def other_optimizer() -> object:
    train, exemplar = data()
    model, (batch, chosen) = net(), batches(0, train, exemplar)
    optimizer = (torch.optim.Adam if _last() else torch.optim.SGD)(model.parameters(), lr=0.1)
    return fw.FORML(model, N).step(part(batch), part(chosen), optimizer)


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


@refused
def fully_shard_of_ranks_alone() -> object:
    train, exemplar = data()
    model = sharded(net())
    batch, chosen = (part(b) for b in batches(0, train, exemplar))
    forml = fw.FORML(model, N, process_group=None)
    return forml.step(batch, chosen, torch.optim.SGD(model.parameters(), lr=0.1))


@refused
def sync_batch_norm() -> object:
    return _step(nn.Sequential(net(), nn.SyncBatchNorm(3).double()))


@refused
def wrapper_of_other_ranks() -> object:
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    return _step(nn.parallel.DistributedDataParallel(net(), process_group=alone))


def _steps(model: nn.Module, forml: fw.FORML, lr: float = 0.1, number: int = 3) -> object:
    train, exemplar = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return [forml.step(*(part(b) for b in batches(k, train, exemplar)), optimizer) for k in range(number)]


@refused
def other_options_of_the_method() -> object:
    return _steps(model := net(), fw.FORML(model, N, every=2 if _last() else 1))


@refused
def other_objective() -> object:
    return _steps(model := net(), fw.FORML(model, N, fw.MeanLoss() if _last() else fw.LossVariance()))


@refused
def other_number_of_samples() -> object:
    return _steps(model := net(), fw.FORML(model, N + dist.get_rank()))


@refused
def other_learning_rate() -> object:
    return _steps(model := net(), fw.FORML(model, N), lr=0.2 if _last() else 0.1)


@refused
def state_loaded_on_one_rank() -> object:
    model = net()
    forml = fw.FORML(model, N)
    _steps(model, forml, number=1)
    saved = forml.state_dict()
    _steps(model, forml, number=1)
    if _last():
        forml.load_state_dict(saved)
    return _steps(model, forml)


def _fit(train: object, **options: Any) -> object:
    model = net()
    forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.1)
    return fw.fit(model, optimizer, forml, train, data()[1], per_cell=2, **options)  # type: ignore[arg-type]


@refused
def sample_that_cannot_be_read() -> object:
    train, _ = data()

    class Broken:
        labels, groups = train.labels, train.groups

        def __len__(self) -> int:
            return N

        def take(self, index: Tensor) -> fw.Batch:
            if _last():
                raise OSError("picture 7 cannot be read")
            return train.take(index)

    return _fit(Broken(), epochs=1)


@refused
def observer_fails() -> object:
    class Fails(fw.Observer):
        def on_step(self, step: int, record: fw.StepRecord) -> None:
            if _last():
                raise ArithmeticError("the observer fails")

    return _fit(data()[0], epochs=1, observers=[Fails()])


@refused
def observer_runs_out() -> object:
    """A StopIteration cannot leave a generator, so it must not travel as one."""

    class RunsOut(fw.Observer):
        def on_step(self, step: int, record: fw.StepRecord) -> None:
            if _last():
                next(iter(()))

    try:
        return _fit(data()[0], epochs=1, observers=[RunsOut()])
    except StopIteration as error:  # the rank's own
        raise RuntimeError("StopIteration") from error


@refused
def observer_fails_in_its_own_way() -> object:
    class OwnError(Exception):
        pass

    class Fails(fw.Observer):
        def on_step(self, step: int, record: fw.StepRecord) -> None:
            if _last():
                raise OwnError("the observer fails")

    return _fit(data()[0], epochs=1, observers=[Fails()])


@refused
def other_epochs() -> object:
    return _fit(data()[0], epochs=1 + dist.get_rank())


@refused
def rows_already_split() -> object:
    return _fit(data()[0].take((torch.arange(N) + dist.get_rank()) % N), epochs=1)


@refused
def loaders_of_different_length() -> object:
    train, _ = data()
    assert isinstance(train.inputs, Tensor)
    rows = range(20) if _last() else range(20, N)
    own = DataLoader(fw.with_rows(TensorDataset(train.inputs, train.labels)), 4, sampler=SubsetRandomSampler(rows))
    return _fit(own, epochs=1)


@refused
def loaders_of_the_same_rows() -> object:
    train, _ = data()
    assert isinstance(train.inputs, Tensor)
    return _fit(DataLoader(fw.with_rows(TensorDataset(train.inputs, train.labels)), 4, shuffle=True), epochs=1)
