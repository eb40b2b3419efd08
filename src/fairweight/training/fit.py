"""Training in one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from fairweight.constraints import FLAG, SEED, constrained, either, whole
from fairweight.errors import BadInput
from fairweight.metagradient.model import RandomState
from fairweight.methods import Reweighter
from fairweight.training.callbacks import Observer
from fairweight.training.history import Dynamics
from fairweight.training.loader import as_samples
from fairweight.training.lock import claimed
from fairweight.training.loop import Training
from fairweight.training.options import Augment, FitOptions, Scheduler
from fairweight.training.run_record import RunRecord
from fairweight.types import Samples


@constrained(epochs=whole(1), resume=FLAG, batch_size=either(whole(1)), per_cell=either(whole(1)), seed=either(SEED))
def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    reweighter: Reweighter,
    train: Samples | DataLoader[Any],
    exemplar: Samples | DataLoader[Any] | None = None,
    epochs: int = 10,
    observers: Sequence[Observer] = (),
    *,
    validation: Samples | None = None,
    scheduler: Scheduler | None = None,
    augment: Augment | None = None,
    dynamics: Dynamics | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    options: FitOptions | None = None,
    batch_size: int | None = None,
    per_cell: int | None = None,
    seed: int | None = None,
) -> RunRecord:
    """Train for this many epochs, and leave the model as the last epoch, or the best one under EarlyStopping, made it.

    train, exemplar, validation: a Batch that holds the whole set, or anything that can be drawn from (Samples); train
    and exemplar may be a torch DataLoader over `with_rows(dataset)`; batches of train are taken as it makes them.
    batch_size, per_cell and seed are the options asked for most; FitOptions has them and the others.
    out: a folder for the log and the checkpoint; with resume, a run that was stopped goes on from there and ends
    bit for bit as if it had not been (on a CPU). The caller's random stream is left as it was.

    Examples:
        >>> import torch, fairweight as fw
        >>> _ = torch.manual_seed(0)
        >>> train = fw.Batch(torch.randn(64, 4), torch.randint(2, (64,)))
        >>> held = fw.Batch(torch.randn(32, 4), torch.randint(2, (32,)))
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> record = fw.fit(model, optimizer, fw.FORML(model, len(train)), train, held, epochs=2, batch_size=16)
        >>> record.epochs, record.steps
        (2, 8)
    """
    given: dict[str, Any] = {"batch_size": batch_size, "per_cell": per_cell, "seed": seed}
    fit_options = replace(options or FitOptions(), **{key: value for key, value in given.items() if value is not None})
    ranks = reweighter.ranks
    writes = out is not None and (ranks is None or ranks.first)  # the first rank alone
    with nullcontext() if ranks is None else ranks.together(), claimed(str(out)) if writes else nullcontext():
        _check(train, exemplar, validation, out, resume=resume)
        sets = as_samples(train, reweighter), as_samples(exemplar, reweighter)
        folder = None if out is None else Path(out)
        more: Any = (validation, scheduler, augment, dynamics, folder, resume, fit_options)
        training = Training(model, optimizer, reweighter, *sets, epochs, tuple(observers), *more)
        random = RandomState.now(training.device)
        try:
            record = training.go()
        finally:
            for observer in training.observers:
                observer.on_end(training.stopped)
            random.restore()
        if ranks is not None:
            ranks.agree()  # that all have ended well
        return record


def _check(train: Any, exemplar: Any, validation: Any, out: str | Path | None, *, resume: bool) -> None:
    if resume and out is None:
        raise BadInput("resume=True goes on from a checkpoint and needs its folder; pass out= with the run's folder.")
    for name, data in (("train", train), ("exemplar", exemplar), ("validation", validation)):
        loader = isinstance(data, DataLoader) and name != "validation"
        if data is not None and not loader and not isinstance(data, Samples):
            raise BadInput(
                f"{name}= is a {type(data).__name__}, and fit draws samples by their row: pass a Batch that holds the "
                "whole set, anything with labels, groups, len() and take(rows), or a DataLoader over with_rows(data)."
            )
