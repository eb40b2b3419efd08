"""Trainings that every rank runs on its part, and one process on the whole: the same numbers must come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn

import fairweight as fw
from fairweight import methods
from fairweight.metagradient import Mode
from fairweight.types import Batch

DEVICE = os.environ.get("DEVICE", "cpu")  # where models and data are
N, E, BATCH, EXEMPLARS, STEPS = 60, 40, 13, 11, 12
Numbers = dict[str, Tensor]
Training = Callable[..., Numbers]
CASES: dict[str, Training] = {}
# For a quick look, and on three ranks.
FEW = ("forward", "per_layer", "auto_wrapped", "ties", "meta_weight_net", "group_dro", "sharded_ties", "fully_sharded")


def case(function: Training) -> Training:
    CASES[function.__name__] = function
    return function


def rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def part(batch: Batch) -> Batch:
    """This rank's samples: uneven parts, in the order of the ranks."""
    rank, size = rank_and_size()
    return batch.take(torch.arange(len(batch)).tensor_split(size)[rank]) if size > 1 else batch


def data() -> tuple[Batch, Batch]:
    g = torch.Generator().manual_seed(7)
    x = torch.randn(N + E, 5, generator=g, dtype=torch.float64)
    labels = torch.randint(3, (N + E,), generator=g)
    groups = torch.randint(2, (N + E,), generator=g)
    whole = Batch(x, labels, groups, torch.arange(N + E))
    train = whole.take(torch.arange(N))
    exemplar = whole.take(torch.arange(N, N + E))
    shares = torch.rand(E, generator=g, dtype=torch.float64) + 0.5
    exemplar = Batch(exemplar.inputs, exemplar.labels, exemplar.groups, torch.arange(E), shares)
    return train.to(DEVICE), exemplar.to(DEVICE)


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double().to(DEVICE)


class PerRank(nn.Module):
    """Batch norm whose statistics are those of the part that each of two ranks would see."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6).double()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.norm(part) for part in x.tensor_split(max(1, 2 // rank_and_size()[1]))])


def sharded(model: nn.Module, *, each_layer: bool = False) -> nn.Module:
    """`fully_shard` on a CPU, of the whole or also of every linear layer."""
    if not dist.is_initialized():
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(torch.device(DEVICE).type, (dist.get_world_size(),))
    for layer in [m for m in model.modules() if each_layer and isinstance(m, nn.Linear)]:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batches(step: int, train: Batch, exemplar: Batch) -> tuple[Batch, Batch]:
    """Of this step, the same on every rank; sorted by group, so that a rank may have one group of exemplars alone."""
    g = torch.Generator().manual_seed(100 + step)
    rows = torch.randint(N, (BATCH,), generator=g)  # a row may come twice
    chosen = exemplar.take(torch.randperm(E, generator=g)[:EXEMPLARS])
    assert chosen.groups is not None
    return train.take(rows), chosen.take(torch.argsort(chosen.groups, stable=True))


def numbers(model: nn.Module, method: fw.Reweighter) -> Numbers:
    whole = {name: p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in model.named_parameters()}
    found = {name: p.detach().clone() for name, p in whole.items()}
    if method.scores is not None:
        found["scores"] = method.scores.clone()
    weights = method.weights()
    if weights is not None:
        found["weights"] = weights.clone()
    return found


def trained(
    made: Callable[[nn.Module], fw.Reweighter],
    *,
    model: nn.Module | None = None,
    wrap: bool | Callable[[nn.Module], nn.Module] = False,
    steps: int = STEPS,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    exemplars: bool = True,
    by_epoch: bool = False,
    drawn: Callable[[int, Batch, Batch], tuple[Batch, Batch]] = batches,
) -> Numbers:
    model = net() if model is None else model
    train, exemplar = data()
    shown: nn.Module = model
    if callable(wrap):
        shown = wrap(model)
    elif wrap and dist.is_initialized():
        shown = nn.parallel.DistributedDataParallel(model)
    method = made(shown)
    moving = optimizer(model.parameters(), lr=0.1)
    method.begin(train, exemplar)
    for step in range(steps):
        batch, chosen = drawn(step, train, exemplar)
        record = method.step(part(batch), part(chosen) if exemplars else None, moving)
        if by_epoch and step % 4 == 3:
            method.on_epoch(1 + step // 4, lambda samples: fw.predict(model, samples))
        if callable(wrap) and step == 3:
            fw.predict(shown, train)  # leaves the outermost parameters together
    return {**numbers(model, method), "loss": record.loss, "losses": record.losses, "step_weights": record.weights}


OBJECTIVE = fw.MeanLoss() + fw.LossVariance()
WRAPPED, PLAIN = {"wrap": True}, {"exemplars": False}
ADAM, BY_EPOCH = {"optimizer": torch.optim.Adam}, {"exemplars": False, "by_epoch": True}
FORWARD, LAYERS = {"gradient": "forward"}, {"gradient": "per-layer"}


def simple(
    name: str, made: Callable[..., fw.Reweighter], /, *given: Any, how: Mapping[str, Any] | None = None, **options: Any
) -> None:
    CASES[name] = lambda: trained(lambda model: made(model, N, *given, **options), **(how or {}))


simple("forward", fw.FORML, OBJECTIVE, agreement_every=5, **FORWARD)
simple("per_layer", fw.FORML, fw.MaxLossDiscrepancy(), **LAYERS)
simple("double_backward", fw.FORML, fw.EqualOddsLoss(), gradient="double-backward")
simple("auto_wrapped", fw.FORML, how=WRAPPED)
simple("forward_wrapped", fw.FORML, fw.LossVariance(), how=WRAPPED | ADAM, **FORWARD)
simple("ties", fw.FORML, OBJECTIVE, tie="cell")
simple("sharded_scores", fw.FORML, OBJECTIVE, scores="sharded", **FORWARD)
simple("fully_sharded", fw.FORML, OBJECTIVE, how={"wrap": sharded}, **FORWARD)
each_layer = {"wrap": partial(sharded, each_layer=True)}
simple("fully_sharded_layers", fw.FORML, OBJECTIVE, scores="sharded", how=each_layer | ADAM, **LAYERS)
simple("fully_sharded_group_dro", fw.GroupDRO, how={"wrap": sharded} | PLAIN)
simple("every_second", fw.FORML, OBJECTIVE, every=2, how=WRAPPED)
simple("reverse", fw.FORML, OBJECTIVE, fw.LookAhead(lr=0.05, reverse=True), fw.PlainStep(scale=50.0))
simple("at_rest", fw.FORML, OBJECTIVE, None)
simple("heeding", fw.FORML, OBJECTIVE, score_step=fw.AdaptiveStep(heed=1.0), agreement_every=2)
simple("other_form", fw.FORML, OBJECTIVE, form="logit-scale", **FORWARD)
simple("scope", fw.FORML, OBJECTIVE, scope="head")
simple("l2rw", fw.L2RW)
simple("meta_weight_net", fw.MetaWeightNet, seed=1, hidden=8)
simple("meta_weight_net_of_means", fw.MetaWeightNet, seed=1, hidden=8, normalised=False, detached=False)
simple("group_dro", fw.GroupDRO, normalised=False, how=PLAIN)
simple("focal", fw.Focal, how=PLAIN)
simple("uniform_wrapped", fw.Uniform, how=PLAIN | WRAPPED)
simple("random", fw.Random, kind="redrawn", seed=5, how=PLAIN)
simple("class_difficulty", fw.ClassDifficulty, how=BY_EPOCH)
simple("label_bias", fw.LabelBias, online=True, how=BY_EPOCH)
simple("jtt", fw.JTT, how=BY_EPOCH)
simple("class_balanced", fw.ClassBalanced, how=PLAIN)


@case
def batch_norm() -> Numbers:
    """Statistics are each rank's own, as in DistributedDataParallel."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(5, 6), PerRank(), nn.Tanh(), nn.Linear(6, 3)).double().to(DEVICE)
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE), model=model)


@case
def sharded_ties() -> Numbers:
    """Put back from a checkpoint too, which holds the scores of all ranks."""

    def again(model: nn.Module) -> fw.Reweighter:
        seen = fw.FORML(model, N, OBJECTIVE, tie="cell", scores="sharded")
        train, exemplar = data()
        batch, chosen = batches(50, train, exemplar)
        rested = torch.optim.SGD(model.parameters(), lr=1e-9)
        seen.step(part(batch), part(chosen), rested)
        made = fw.FORML(model, N, OBJECTIVE, tie="cell", scores="sharded")
        made.load_state_dict(seen.state_dict())
        assert len(made.state_dict()["own"]) == N
        return made

    return trained(again, wrap=True)


class Sometimes(nn.Module):
    """A layer that only large inputs go through: some batches, and some ranks, leave it out of their graph."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.always, self.rarely, self.last = (nn.Linear(*size).double() for size in ((5, 6), (5, 6), (6, 3)))
        self.to(DEVICE)

    def forward(self, x: Tensor) -> Tensor:
        hidden, large = self.always(x), x[:, :1] > 0.5
        if bool(large.any()):
            hidden = hidden + torch.where(large, self.rarely(x), torch.zeros_like(hidden))
        return self.last(torch.tanh(hidden))  # type: ignore[no-any-return]


@case
def a_layer_that_some_ranks_use(wrap: bool = False) -> Numbers:
    """Where no sample goes through a layer, Adam must not move it, whatever a rank without samples runs."""

    def thin(step: int, train: Batch, exemplar: Batch) -> tuple[Batch, Batch]:
        batch, chosen = batches(step, train, exemplar)
        return (batch.take(torch.arange(1)) if step % 3 == 2 else batch), chosen

    made = lambda m: fw.FORML(m, N, OBJECTIVE, **FORWARD)  # noqa: E731
    shown = partial(nn.parallel.DistributedDataParallel, find_unused_parameters=True)
    wrapped = shown if wrap and dist.is_initialized() else False
    return trained(made, model=Sometimes(), drawn=thin, optimizer=torch.optim.AdamW, wrap=wrapped)


CASES["a_layer_that_some_wrapped_ranks_use"] = partial(a_layer_that_some_ranks_use, True)


@case
def sample_weight() -> Numbers:
    def made(model: nn.Module) -> fw.Reweighter:
        method = fw.FORML(model, N, OBJECTIVE)
        method.sample_weight = torch.linspace(0.5, 1.5, N, dtype=torch.float64, device=DEVICE)
        return method

    return trained(made)


@case
def small_batches() -> Numbers:
    """A batch with fewer samples than ranks leaves some of them without any."""

    def thin(step: int, train: Batch, exemplar: Batch) -> tuple[Batch, Batch]:
        batch, chosen = batches(step, train, exemplar)
        return (batch.take(torch.arange(1)) if step % 3 == 2 else batch), chosen

    return trained(lambda m: fw.FORML(m, N, OBJECTIVE), drawn=thin, wrap=True)


@case
def head_of_small_batches() -> Numbers:
    """A rank without samples in the first step finds the head as the others do."""

    def thin(step: int, train: Batch, exemplar: Batch) -> tuple[Batch, Batch]:
        batch, chosen = batches(step, train, exemplar)
        return (batch.take(torch.arange(1)) if step == 0 else batch), chosen

    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, scope="head"), drawn=thin)


@case
def micro_batches(gradient: str = "auto", made: Callable[[], nn.Module] = net) -> Numbers:
    """Two micro-batches on every rank make one step; in the last, some of them are empty."""
    model = made()
    train, exemplar = data()
    shown: nn.Module = model
    if dist.is_initialized():
        shown = nn.parallel.DistributedDataParallel(model, find_unused_parameters=made is not net)
    forml, optimizer = fw.FORML(shown, N, OBJECTIVE, gradient=gradient), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        batch, chosen = batches(step, train, exemplar)
        batch, chosen = part(batch if step < 3 else batch.take(torch.arange(3))), part(chosen)  # the last: some empty
        optimizer.zero_grad()
        with forml.accumulating(2):
            for rows in torch.arange(len(batch)).tensor_split(2):
                forml.backward(batch.take(rows), chosen, optimizer)
        optimizer.step()
    return numbers(model, forml)


CASES["micro_batches_forward"] = partial(micro_batches, "forward")
CASES["micro_batches_of_a_layer_that_some_use"] = partial(micro_batches, "forward", Sometimes)


@case
def micro_batches_of_some_ranks() -> Numbers:
    """The first rank has one micro-batch, the others two: under a wrapper too, all of them sum by themselves."""
    model = net()
    train, exemplar = data()
    shown = nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    forml, optimizer = fw.FORML(shown, N, OBJECTIVE, **FORWARD), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch, chosen = (part(b) for b in batches(step, train, exemplar))
        optimizer.zero_grad()
        with forml.accumulating(4):
            for rows in torch.arange(len(batch)).tensor_split(1 if rank_and_size()[0] == 0 else 2):
                forml.backward(batch.take(rows), chosen, optimizer)
        optimizer.step()
    return numbers(model, forml)


@case
def other_modes_by_trial() -> Numbers:
    """The last rank's trial finds forward mode where the others find the gradient per layer: all take forward mode."""
    rank, size = rank_and_size()
    tried, made = methods.choose, list[fw.FORML]()

    def found(*given: Any, **options: Any) -> Mode:
        mode = tried(*given, **options)
        assert mode.name == "per-layer"
        return replace(mode, name="forward") if size > 1 and rank == size - 1 else mode

    def forml(model: nn.Module) -> fw.FORML:
        made.append(fw.FORML(model, N, OBJECTIVE))
        return made[0]

    with patch.object(methods, "choose", found):
        reached = trained(forml)
    assert made[0].mode is not None
    assert made[0].mode.name == ("forward" if size > 1 else "per-layer")
    return reached


def traffic() -> dict[str, list[int]]:
    """Bytes that a step gives to the others, exchange by exchange, and how many of them were sums."""
    sent: dict[str, list[int]] = {"all_gather": [], "all_reduce": []}
    kept = {name: getattr(dist, name) for name in sent}

    def counted(name: str) -> Callable[..., object]:
        def call(*given: Tensor, **how: object) -> object:
            sent[name].append(given[-1].numel() * given[-1].element_size())
            return kept[name](*given, **how)

        return call

    model = net()
    train, exemplar = data()
    forml = fw.FORML(model, N, OBJECTIVE, gradient="forward", agreement_every=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        batch, chosen = (part(b.take(torch.arange(12))) for b in (train, exemplar))
        if step == 1:  # the first one also finds out what ranks can do
            for name in sent:
                setattr(dist, name, counted(name))
        try:
            forml.step(batch, chosen, optimizer)
        finally:
            for name, function in kept.items():
                setattr(dist, name, function)
    return sent
