"""Rows travel with samples through workers, samplers and shuffling, and fit trains on a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler, get_worker_info

import fairweight as fw
from fairweight.errors import BadInput

N = 40


def _tensors() -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 4, generator=g, dtype=torch.float64)
    return x, torch.randint(2, (N,), generator=g), torch.randint(2, (N,), generator=g)


class Dicts(Dataset[dict[str, Any]]):
    """Samples as dicts, as many frameworks have them."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, Any]:
        x, y, a = _tensors()
        return {"inputs": x[index], "labels": y[index], "groups": a[index]}


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Samples one after the other, by every worker alike."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y, _ = _tensors()
        yield from zip(x, y, strict=True)

    def __len__(self) -> int:
        return N


class Parted(Stream):
    """Samples that the dataset deals out to the workers itself."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        yield from list(super().__iter__())[number::workers]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["tuples", "dicts", "stream", "parted"])
def test_every_row_comes_with_its_own_sample(kind: str, workers: int) -> None:
    x, y, a = _tensors()
    streams = {"stream": Stream(), "parted": Parted()}
    dataset = {"tuples": TensorDataset(x, y, a), "dicts": Dicts(), **streams}[kind]
    rowed = fw.with_rows(dataset, sharded=kind == "parted")
    loader = DataLoader(rowed, 7, shuffle=kind not in streams, num_workers=workers)
    seen = []
    for batch in map(fw.to_batch, loader):
        assert batch.rows is not None
        assert torch.equal(batch.inputs, x[batch.rows])  # type: ignore[arg-type]
        assert torch.equal(batch.labels, y[batch.rows])
        assert kind in streams or torch.equal(batch.groups, a[batch.rows])  # type: ignore[arg-type]
        seen.append(batch.rows)
    assert torch.cat(seen).sort()[0].tolist() == list(range(N))


def test_a_sampler_that_draws_twice() -> None:
    x, y, _ = _tensors()
    sampler = WeightedRandomSampler([1.0] * N, 100, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(fw.with_rows(TensorDataset(x, y)), 10, sampler=sampler)
    assert all(torch.equal(b.inputs, x[b.rows]) for b in map(fw.to_batch, loader))  # type: ignore[arg-type, index]


def test_what_the_dataset_knows_stays_known() -> None:
    x, y, _ = _tensors()
    assert fw.with_rows(TensorDataset(x, y)).tensors[0] is x


def test_batches_that_cannot_be_understood() -> None:
    x, y, _ = _tensors()
    with pytest.raises(BadInput, match="with_rows"):
        fw.to_batch(next(iter(DataLoader(TensorDataset(x, y), 4))))
    with pytest.raises(BadInput, match="no labels"):
        fw.to_batch({"inputs": x, "rows": torch.arange(N)})
    with pytest.raises(BadInput, match="Tensor"):
        fw.to_batch(x)


def _trained(train: Any, *, epochs: int = 2, out: Any = None, resume: bool = False) -> tuple[Tensor, Tensor]:
    x, y, a = _tensors()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.1), nn.Linear(5, 2)).double()
    forml = fw.FORML(model, N, gradient="forward")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    dynamics = fw.Dynamics(N)
    fw.fit(
        model, optimizer, forml, train, fw.Batch(x, y, a), epochs, dynamics=dynamics, per_cell=2, out=out, resume=resume
    )
    assert dynamics.visits.tolist() == [epochs] * N
    return forml.scores, next(model.parameters()).detach().clone()


def test_fit_takes_a_loader() -> None:
    """In a fixed order: the same numbers as the same batches taken one by one."""
    x, y, a = _tensors()
    scores, weights = _trained(DataLoader(fw.with_rows(TensorDataset(x, y, a)), 8))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.1), nn.Linear(5, 2)).double()
    forml = fw.FORML(model, N, gradient="forward")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    exemplar = fw.Batch(x, y, a)
    sampler = fw.ExemplarSampler(fw.Cells.of(y, a), 2, 0)
    torch.manual_seed(0)
    for step in range(10):
        rows = torch.arange(N).split(8)[step % 5]  # type: ignore[no-untyped-call]
        forml.step(fw.Batch(x[rows], y[rows], a[rows], rows), sampler.batch(exemplar, step), optimizer)
    assert torch.equal(scores, forml.scores)
    assert torch.equal(weights, next(model.parameters()))


def test_a_loader_resumes_in_its_own_order(tmp_path: Any) -> None:
    x, y, a = _tensors()
    loader = DataLoader(fw.with_rows(TensorDataset(x, y, a)), 8, shuffle=True)
    whole = _trained(loader, epochs=3)
    _trained(loader, epochs=2, out=tmp_path)
    again = _trained(loader, epochs=3, out=tmp_path, resume=True)
    assert all(torch.equal(one, other) for one, other in zip(whole, again, strict=True))


class Stops(fw.Observer):
    """Ends a run in the middle of an epoch."""

    def on_step(self, step: int, record: fw.StepRecord) -> None:
        if step == 7:
            raise InterruptedError


class Noisy(TensorDataset):
    """Samples that are changed at random when they are read."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, *rest = super().__getitem__(index)
        return x + torch.randn_like(x) / 10, *rest


@pytest.mark.parametrize("kind", [TensorDataset, Noisy])
def test_a_loader_resumes_in_the_middle_of_an_epoch(kind: Any, tmp_path: Any) -> None:
    """What a sampler shuffles is drawn with the first batch, and must not depend on when that is read."""
    x, y, a = _tensors()
    loader = DataLoader(fw.with_rows(kind(x, y, a)), 8, shuffle=True)
    options = fw.FitOptions(per_cell=2, checkpoint_every=0.0)

    def trained(out: Any = None, observers: tuple[fw.Observer, ...] = ()) -> Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.1), nn.Linear(5, 2)).double()
        forml, optimizer = fw.FORML(model, N), torch.optim.SGD(model.parameters(), lr=0.2)
        resume = out is not None
        fw.fit(
            model, optimizer, forml, loader, fw.Batch(x, y, a), 3, observers, out=out, resume=resume, options=options
        )
        return forml.scores

    with pytest.raises(InterruptedError):
        trained(tmp_path, (Stops(),))
    assert torch.equal(trained(tmp_path), trained())


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_batch_of_a_stream_comes_in_every_epoch(workers: int) -> None:
    """Each worker makes a last batch of its own, which torch does not count."""
    model = nn.Linear(4, 2).double()
    uniform, dynamics = fw.Uniform(model, N), fw.Dynamics(N)
    loader = DataLoader(fw.with_rows(Stream()), 6, num_workers=workers)
    fw.fit(model, torch.optim.SGD(model.parameters(), lr=0.1), uniform, loader, epochs=2, dynamics=dynamics)
    assert dynamics.visits.tolist() == [2] * N


def test_a_stream_trains_with_uniform_weights() -> None:
    model = nn.Linear(4, 2).double()
    before = model.weight.detach().clone()
    uniform = fw.Uniform(model, N)
    fw.fit(model, torch.optim.SGD(model.parameters(), lr=0.1), uniform, DataLoader(fw.with_rows(Stream()), 8), epochs=1)
    assert not torch.equal(model.weight, before)


def test_a_stream_that_ends_too_early_is_refused() -> None:
    model = nn.Linear(4, 2).double()
    loader = DataLoader(fw.with_rows(Stream()), 8)
    with pytest.raises(BadInput, match="ended before 60 samples came; make the method with num_samples"):
        fw.fit(model, torch.optim.SGD(model.parameters(), lr=0.1), fw.Uniform(model, 60), loader, epochs=1)
