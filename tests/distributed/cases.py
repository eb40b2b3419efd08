"""Trainings that every rank runs on its part, and one process on the whole: the same numbers must come out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

import fairweight as fw
from fairweight.types import Batch

DEVICE = os.environ.get("DEVICE", "cpu")  # where models and data are
N, E, BATCH, EXEMPLARS, STEPS = 60, 40, 13, 11, 12
Numbers = dict[str, Tensor]
Training = Callable[[], Numbers]
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


@case
def forward() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, gradient="forward", agreement_every=5))


@case
def per_layer() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, fw.MaxLossDiscrepancy(), gradient="per-layer"))


@case
def double_backward() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, fw.EqualOddsLoss(), gradient="double-backward"))


@case
def auto_wrapped() -> Numbers:
    return trained(lambda m: fw.FORML(m, N), wrap=True)


@case
def forward_wrapped() -> Numbers:
    return trained(
        lambda m: fw.FORML(m, N, fw.LossVariance(), gradient="forward"), wrap=True, optimizer=torch.optim.Adam
    )


@case
def ties() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, tie="cell"))


@case
def batch_norm() -> Numbers:
    """Statistics are each rank's own, as in DistributedDataParallel."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(5, 6), PerRank(), nn.Tanh(), nn.Linear(6, 3)).double().to(DEVICE)
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE), model=model)


@case
def sharded_scores() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, gradient="forward", scores="sharded"))


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


@case
def fully_sharded() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, gradient="forward"), wrap=sharded)


@case
def fully_sharded_layers() -> Numbers:
    return trained(
        lambda m: fw.FORML(m, N, OBJECTIVE, gradient="per-layer", scores="sharded"),
        wrap=lambda m: sharded(m, each_layer=True), optimizer=torch.optim.Adam,
    )  # fmt: skip


@case
def fully_sharded_group_dro() -> Numbers:
    return trained(lambda m: fw.GroupDRO(m, N), wrap=sharded, exemplars=False)


@case
def every_second() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, every=2), wrap=True)


@case
def reverse() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, fw.LookAhead(lr=0.05, reverse=True), fw.PlainStep(scale=50.0)))


@case
def at_rest() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, None))


@case
def heeding() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, score_step=fw.AdaptiveStep(heed=1.0), agreement_every=2))


@case
def other_form() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, form="logit-scale", gradient="forward"))


@case
def scope() -> Numbers:
    return trained(lambda m: fw.FORML(m, N, OBJECTIVE, scope="head"))


@case
def l2rw() -> Numbers:
    return trained(lambda m: fw.L2RW(m, N))


@case
def meta_weight_net() -> Numbers:
    return trained(lambda m: fw.MetaWeightNet(m, N, seed=1, hidden=8))


@case
def meta_weight_net_of_means() -> Numbers:
    return trained(lambda m: fw.MetaWeightNet(m, N, seed=1, hidden=8, normalised=False, detached=False))


@case
def group_dro() -> Numbers:
    return trained(lambda m: fw.GroupDRO(m, N, normalised=False), exemplars=False)


@case
def focal() -> Numbers:
    return trained(lambda m: fw.Focal(m, N), exemplars=False)


@case
def uniform_wrapped() -> Numbers:
    return trained(lambda m: fw.Uniform(m, N), exemplars=False, wrap=True)


@case
def random() -> Numbers:
    return trained(lambda m: fw.Random(m, N, kind="redrawn", seed=5), exemplars=False)


@case
def class_difficulty() -> Numbers:
    return trained(lambda m: fw.ClassDifficulty(m, N), exemplars=False, by_epoch=True)


@case
def label_bias() -> Numbers:
    return trained(lambda m: fw.LabelBias(m, N, online=True), exemplars=False, by_epoch=True)


@case
def jtt() -> Numbers:
    return trained(lambda m: fw.JTT(m, N), exemplars=False, by_epoch=True)


@case
def class_balanced() -> Numbers:
    return trained(lambda m: fw.ClassBalanced(m, N), exemplars=False)


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
def micro_batches() -> Numbers:
    """Two micro-batches on every rank make one step; in the last, some of them are empty."""
    return _micro_batches("auto")


@case
def micro_batches_forward() -> Numbers:
    return _micro_batches("forward")


def _micro_batches(gradient: str) -> Numbers:
    model = net()
    train, exemplar = data()
    shown = nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    forml, optimizer = fw.FORML(shown, N, OBJECTIVE), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        batch, chosen = batches(step, train, exemplar)
        batch, chosen = (
            part(batch if step < 3 else batch.take(torch.arange(3))),
            part(chosen),
        )  # the last leaves some empty
        optimizer.zero_grad()
        with forml.accumulating(2):
            for rows in torch.arange(len(batch)).tensor_split(2):
                forml.backward(batch.take(rows), chosen, optimizer)
        optimizer.step()
    return numbers(model, forml)


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


def _fit(epochs: int, out: Path | None = None, *, norm: bool = False, resume: bool = False) -> Numbers:
    train, exemplar = data()
    model = net()
    if norm:
        model = nn.Sequential(model, nn.BatchNorm1d(3).double().to(DEVICE), nn.Dropout(0.2))
    forml, dynamics = fw.FORML(model, N, OBJECTIVE, agreement_every=4), fw.Dynamics(N, DEVICE)
    record = fw.fit(
        model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), forml, train, exemplar, epochs,
        [fw.EarlyStopping("loss", patience=50)], validation=exemplar, dynamics=dynamics, out=out, resume=resume,
        batch_size=16, per_cell=2, seed=3,
    )  # fmt: skip
    history = torch.tensor([[e["loss"], e["validation"]["loss"], e["score_std"]] for e in record.history])
    seen = {f"dynamics_{name}": torch.as_tensor(v).double() for name, v in dynamics.table().items()}
    return {**numbers(model, forml), "history": history.double(), **seen}


@case
def fit() -> Numbers:
    return _fit(3)


@case
def resumed() -> Numbers:
    """How far a run that was stopped and resumed ends from one that was not: nowhere, with its ranks."""
    out = Path(os.environ["FOLDER"], "run") if dist.is_initialized() else None
    whole = _fit(3, norm=True)
    if out is None:
        return {"difference": torch.zeros((), dtype=torch.float64)}
    _fit(2, out, norm=True)
    again = _fit(3, out, norm=True, resume=True)
    assert [found.name for found in out.iterdir() if found.name.startswith("log")] == ["log.jsonl"]
    differences = [(again[key] - whole[key]).nan_to_num().abs().max() for key in whole]
    return {"difference": torch.stack(differences).max()}
