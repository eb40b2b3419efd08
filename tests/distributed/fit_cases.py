"""Trainings by `fit`, beside the steps of `cases`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.distributed.cases import CASES, DEVICE, OBJECTIVE, N, Numbers, case, data, net, numbers, rank_and_size
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import fairweight as fw

__all__ = ["CASES"]  # with those below


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


@case
def stream() -> Numbers:
    """Of a dataset that is iterated each rank has a part, the first one a batch more than the others."""
    train, exemplar = data()
    count, size = 51, 10 // rank_and_size()[1]

    class Told(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            assert isinstance(train.inputs, Tensor)
            yield from zip(train.inputs[:count].cpu(), train.labels[:count].cpu(), strict=True)

    model = net()
    forml, optimizer = fw.FORML(model, count, OBJECTIVE), torch.optim.SGD(model.parameters(), lr=0.1)
    record = fw.fit(model, optimizer, forml, DataLoader(fw.with_rows(Told()), size), exemplar, 2, per_cell=2)
    assert record.steps == 12
    return numbers(model, forml)
