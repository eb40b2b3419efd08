"""Train a Spec into a run folder; a finished run is never repeated, one that was killed goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Part
from fairweight.data.augment import Chain, Flip, Shift
from fairweight.data.meaning import Meaning
from fairweight.metagradient.passes import predicted
from fairweight.methods import Reweighter
from fairweight.metrics import GroupTable, group_table
from fairweight.models.trees import TreeEnsemble
from fairweight.runs.build import LINEAR, TREES, Built, build, compiles
from fairweight.runs.folder import FILES, METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.held_out import held_out_parts
from fairweight.runs.linear import fit_linear
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.other_runs import begin_from, learned_weights
from fairweight.runs.provenance import provenance
from fairweight.runs.sealed import SEARCH
from fairweight.runs.shift import ByGroup, shifted
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.trees import fit_trees, network_of
from fairweight.training.callbacks import EarlyStopping, Observer
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.fit import fit
from fairweight.training.history import Dynamics
from fairweight.training.options import FitOptions
from fairweight.training.predict import logits
from fairweight.training.run_record import RunRecord
from fairweight.types import Batch, Samples

CANDIDATES = "candidates"  # the folder of the trainings of a search, while it is under way
TRAIN_LOGITS = 5_000_000  # numbers at most that are kept of the final model's logits on train
SMALL = 500_000  # parameters of a network that one thread serves best


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
    observers: Sequence[Observer] = (),
    dataset: Dataset | None = None,
    built: Built | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Result:
    """Train as the Spec says into a folder, or take what is there.

    dataset, built: what the Spec names, where the caller has made it already. report(done, total) is called after each
    training of a search.
    """
    with (folder := RunFolder(out)).claimed():
        same = folder.holds(spec, dataset)
        reused = folder.finished and same
        if reused:
            folder.verify_all()
        else:
            if not same and (spec.search or (folder.path / SEARCH).is_file()):  # of another search that stood here
                shutil.rmtree(folder.path / CANDIDATES, ignore_errors=True)
            folder.drop(*((MANIFEST, METRICS) if same else FILES))
            dataset = dataset_for(spec, data_dir, beside=folder.beside) if dataset is None else dataset
            if spec.search:
                from fairweight.runs.run_search import search_into  # it trains each candidate by this function

                search_into(folder, spec, dataset, device, observers, report)
            else:
                spec = _train_into(folder, spec, dataset, device, observers, built)
            folder.seal()
        folder.drop(CHECKPOINT)  # here, because a kill after the manifest may have left it
        if spec.search:
            shutil.rmtree(folder.path / CANDIDATES, ignore_errors=True)
        return Result(spec, folder, folder.read(METRICS), reused)


def _train_into(
    folder: RunFolder, spec: Spec, dataset: Dataset, device: str, observers: Sequence[Observer], built: Built | None
) -> Spec:
    """Train once and write all files; return the Spec, which of trees also has their sizes."""
    folder.write_run(spec, dataset, provenance(device))
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())
    if built is None or not built.ready(device):
        weights = learned_weights(dataset, spec, folder.beside) if spec.weights else None
        built = build(spec, dataset, device, weights=weights)
        if spec.start:
            begin_from(built.model, spec, folder.beside)
    if spec.network.get("name") in (TREES, LINEAR):
        built, record, dynamics = fit_by_library(built, spec, dataset)
        if isinstance(built.model, TreeEnsemble):
            spec = spec.with_(network=network_of(built.model))
            folder.write(RUN, {**folder.read(RUN), "spec": spec.to_dict()})
    else:
        record, dynamics = train_built(built, spec, dataset, observers, out=folder.path)
    metrics = write_results(folder, dataset, built.model, built.reweighter, dynamics, record, device=built.device)
    folder.write(METRICS, metrics)
    return spec


def finish(run: Result, metrics: dict[str, Any]) -> Result:
    """Write a run's numbers and then its manifest: from now on it is finished."""
    run.folder.write(METRICS, metrics)
    run.folder.seal()
    return replace(run, metrics=run.folder.read(METRICS))


def write_results(
    folder: RunFolder,
    dataset: Dataset,
    model: nn.Module,
    reweighter: Reweighter,
    dynamics: Dynamics,
    record: RunRecord,
    *,
    device: str = "cpu",
    trained: Dataset | None = None,
    shift: ByGroup | None = None,
    held_out: Mapping[str, Tensor] | None = None,
) -> dict[str, Any]:
    """Write the model and what it says of every part of the data; return its numbers, which the caller writes last.

    trained: the data with all rows that the model was trained on, where they are more than the train part. shift: added
    to its logits. held_out: columns of weights.parquet where training kept no history; None: the trained model's loss.
    """
    small = trained is None and len(dataset.train) * len(dataset.label_names) <= TRAIN_LOGITS
    trained = dataset if trained is None else trained
    parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
    parts["train"] = trained.train
    placed_parts = {name: placed(part, device) for name, part in parts.items() if part is not None}
    outputs = {name: (part, shifted(logits(model, part), part.groups, shift)) for name, part in placed_parts.items()}
    test, test_outputs = outputs["test"]
    train, train_outputs = outputs["train"] if small else outputs.pop("train")  # what wrong labels are found by
    table = by_group(dataset.preprocessing.meaning, test.labels, predicted(test_outputs), test.groups)
    folder.write_model(model)
    folder.write_logits({**outputs, **held_out_parts(trained, folder.read(RUN).get("data", {}))})
    at_end = predictions_by(train_outputs, train.labels)
    if not bool(dynamics.visits.any()):
        loss = -at_end["probability"].double().clamp_min(1e-7).log()
        at_end |= {"ema_loss": loss} if held_out is None else held_out
    folder.write_weights(trained, reweighter, dynamics, at_end)
    folder.write_predictions(dataset, predictions_by(test_outputs, test.labels))
    scores = {} if reweighter.scores is None else {"scores": score_numbers(reweighter.scores, trained)}
    return {**table.to_dict(), "run": record.to_dict(), **scores}


def by_group(meaning: Meaning, labels: Tensor, predictions: Tensor, groups: Tensor | None) -> GroupTable:
    """Table by group, with the names that the data gives to labels and groups."""
    title = ", ".join(meaning.group)
    return group_table(
        labels,
        predictions,
        None if groups is None else {title: groups},
        label_names=meaning.label_names,
        group_names=None if groups is None else {title: meaning.group_names},
        missing="ignore",
    )


def fit_by_library(built: Built, spec: Spec, dataset: Dataset) -> tuple[Built, RunRecord, Dynamics]:
    """Fit a linear model, or trees, as many as the Spec has epochs, with the weights that the method knows."""
    start, train = time.monotonic(), dataset.train
    assert isinstance(train, Batch)
    built.reweighter.begin(train, dataset.exemplar)
    kept_weights = built.reweighter.weights()
    weights, model = None if kept_weights is None else kept_weights.detach().cpu(), built.model
    if spec.network["name"] == LINEAR:
        model = fit_linear(train, weights)
    else:
        model, _ = fit_trees(train, weights, dataset, spec.epochs, spec.seed)
    record = RunRecord(spec.epochs, 0, "finished", spec.epochs, seconds=time.monotonic() - start)
    return replace(built, model=model), record, Dynamics(len(train))


def train_built(
    built: Built, spec: Spec, dataset: Dataset, observers: Sequence[Observer] = (), *, out: Path | None = None
) -> tuple[RunRecord, Dynamics]:
    """Train what was built for the Spec; out: the folder of the log and the checkpoint, from which it goes on."""
    device = built.device
    dynamics = Dynamics(len(dataset.train), device, decay=spec.ema_decay)
    steps = spec.epochs * (len(dataset.train) // spec.batch_size)
    early = [EarlyStopping(**spec.early_stopping)] if spec.early_stopping else []
    record = fit(
        built.model,
        built.optimizer,
        built.reweighter,
        placed(dataset.train, device),
        placed(dataset.exemplar, device),
        spec.epochs,
        [*observers, *early],
        validation=None if dataset.validation is None else placed(dataset.validation, device),
        scheduler=built.scheduler,
        augment=Chain(Flip(), Shift(4)) if spec.augment else None,
        dynamics=dynamics,
        out=out,
        resume=out is not None,
        options=FitOptions(
            batch_size=spec.batch_size,
            per_cell=spec.per_cell,
            exemplar_batch=spec.exemplar_batch,
            augment_exemplars=spec.augment_exemplars,
            seed=spec.seed,
            clip_norm=spec.clip_norm,
            autocast=None if spec.autocast is None else getattr(torch, spec.autocast),
            compile=compiles(built.reweighter, device, steps),
        ),
    )
    return record, dynamics


@contextmanager
def one_thread(parameters: int = 0) -> Iterator[None]:
    """Use one thread for a small network on a CPU, where more cost more than they save; then as before."""
    before = torch.get_num_threads()
    if parameters < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def placed(part: Part, device: str) -> Samples:
    """Move a part of the data to the device; one that streams stays where it is and is moved batch by batch."""
    return part.to(device) if isinstance(part, Batch) else part


def score_numbers(scores: Tensor, dataset: Dataset) -> dict[str, float]:
    """Spread of the scores; where true labels are known, how well a low score finds a wrong one."""
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


def predictions_by(outputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Predicted label, probability of the sample's own label, and best other label, by logits [N, K]."""
    chances = probabilities(outputs)
    own = labels.to(chances.device)[:, None]  # [N, 1]
    others = chances.scatter(1, own, -1.0).argmax(dim=1)
    of_label = chances.gather(1, own).squeeze(1)
    columns = {"predicted": chances.argmax(dim=1), "probability": of_label, "suggested": others}
    return {name: values.cpu() for name, values in columns.items()}


def probabilities(outputs: Tensor) -> Tensor:
    """Probability of each class."""  # [N, K]
    return by_class(outputs).softmax(dim=1)


def by_class(outputs: Tensor) -> Tensor:
    """Logit of each class; one logit is that of the positive one, beside 0."""  # [N, K]
    flat = outputs.reshape(len(outputs), -1)
    return torch.cat([torch.zeros_like(flat), flat], dim=1) if flat.shape[1] == 1 else flat
