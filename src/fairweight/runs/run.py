"""From a Spec to a finished run folder; one that is finished is never repeated, one that was killed goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.data import Dataset, Part
from fairweight.data.augment import Chain, Flip, Shift
from fairweight.metagradient.passes import predicted
from fairweight.metrics import group_table
from fairweight.runs.build import network_for, optimizer_for, scheduler_for
from fairweight.runs.build_method import method_from
from fairweight.runs.final_predictions import opinions
from fairweight.runs.fixed_weights import learned_weights
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.layout import compiles, laid_out
from fairweight.runs.provenance import provenance
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import EarlyStopping, Observer
from fairweight.training.fit import fit
from fairweight.training.history import Dynamics
from fairweight.training.options import FitOptions
from fairweight.training.predict import logits
from fairweight.types import Batch, Samples

_log = logging.getLogger("fairweight")


@dataclass(frozen=True)
class Result:
    """A finished run."""

    spec: Spec
    folder: RunFolder
    metrics: dict[str, Any]
    reused: bool  # whether it was there already


def run(
    spec: Spec,
    out: str | Path,
    *,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    download: bool = False,
    observers: Sequence[Observer] = (),
    dataset: Dataset | None = None,
) -> Result:
    """Train as the Spec says into a folder, or take what is there.

    dataset: the Spec's data, where the caller has read it already.
    """
    folder = RunFolder(out)
    folder.make()
    wanted = {"spec": spec.to_dict(), "fingerprint": spec.fingerprint}
    same = folder.holds(spec, dataset)
    if folder.finished and same:
        return Result(spec, folder, folder.read(METRICS), reused=True)
    (folder.path / METRICS).unlink(missing_ok=True)
    if not same:
        folder.drop_checkpoint()  # of another run that stood here
    dataset = dataset_for(spec, data_dir, download, beside=folder.beside) if dataset is None else dataset
    found_data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
    folder.write(RUN, {**wanted, "data": found_data, **provenance(device)})
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())

    torch.manual_seed(spec.seed)
    model = laid_out(network_for(dataset.preprocessing, spec.network), device)
    optimizer = optimizer_for(model, spec, device)
    learned = {"weights": learned_weights(dataset, spec, folder.beside)} if spec.weights else {}
    reweighter = method_from(spec.method, {**spec.method_options, **learned}, model, len(dataset.train))
    dynamics = Dynamics(len(dataset.train), device, decay=spec.ema_decay)
    steps = spec.epochs * (len(dataset.train) // spec.batch_size)
    early = [EarlyStopping(**spec.early_stopping)] if spec.early_stopping else []
    record = fit(
        model,
        optimizer,
        reweighter,
        placed(dataset.train, device),
        placed(dataset.exemplar, device),
        spec.epochs,
        [*observers, *early],
        validation=None if dataset.validation is None else placed(dataset.validation, device),
        scheduler=scheduler_for(optimizer, spec),
        augment=Chain(Flip(), Shift(4)) if spec.augment else None,
        dynamics=dynamics,
        out=folder.path,
        resume=True,
        options=FitOptions(
            batch_size=spec.batch_size,
            per_cell=spec.per_cell,
            exemplar_batch=spec.exemplar_batch,
            augment_exemplars=spec.augment_exemplars,
            seed=spec.seed,
            clip_norm=spec.clip_norm,
            autocast=None if spec.autocast is None else getattr(torch, spec.autocast),
            compile=compiles(reweighter, device, steps),
        ),
    )
    test, exemplar = placed(dataset.test, device), placed(dataset.exemplar, device)
    found = {"test": (test, logits(model, test)), "exemplar": (exemplar, logits(model, exemplar))}
    if dataset.validation is not None:
        validation = placed(dataset.validation, device)
        found["validation"] = (validation, logits(model, validation))
    table = group_table(
        test.labels,
        predicted(found["test"][1]),
        test.groups,
        label_names=dataset.label_names,
        group_names=dataset.group_names if test.groups is not None else None,
        missing="ignore",
    )
    metrics = {**table.to_dict(), "run": record.to_dict()}
    if reweighter.scores is not None:
        metrics["scores"] = score_numbers(reweighter.scores, dataset)
    folder.write_model(model)
    folder.write_logits(found)
    folder.write_weights(dataset, reweighter, dynamics, opinions(model, placed(dataset.train, device)))
    folder.write_predictions(dataset, opinions(model, test))
    folder.write(METRICS, metrics)
    folder.drop_checkpoint()
    return Result(spec, folder, folder.read(METRICS), reused=False)


def score_numbers(scores: Tensor, dataset: Dataset) -> dict[str, float]:
    """How the scores ended; where the true labels are known, how well a low score finds a wrong one."""
    share = torch.softmax(scores.double(), dim=0)
    numbers = {
        "std": float(scores.std()) if len(scores) > 1 else 0.0,
        "min": float(scores.min()),
        "max": float(scores.max()),
        "effective_size": float(1 / (len(scores) * share.square().sum())),
    }
    if dataset.true_labels is not None:
        wrong = (dataset.true_labels != dataset.train.labels.cpu()).numpy()
        if wrong.any() and not wrong.all():
            from sklearn.metrics import roc_auc_score

            numbers["auc_wrong_labels"] = float(roc_auc_score(wrong, -scores.cpu().numpy()))
    return numbers


def placed(part: Part, device: str) -> Samples:
    """A part of the data on the device; one that streams stays where it is and is moved batch by batch."""
    return part.to(device) if isinstance(part, Batch) else part
