"""A second training with the weights that a run has learned, on its rows and the exemplars that it held out."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.data import Dataset, Exemplar
from fairweight.errors import BadInput
from fairweight.experiments.auditing import finished
from fairweight.experiments.folder import RUN, WEIGHTS, RunFolder
from fairweight.experiments.source import dataset_for
from fairweight.experiments.spec import Spec
from fairweight.experiments.train import REFIT, Prepared, tried

if TYPE_CHECKING:
    import pandas as pd


def prepare_refit(
    run: str | Path,
    out: str | Path | None = None,
    *,
    seed: int | None = None,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> tuple[Prepared, Path]:
    """What `fairweight refit` would train, and where; nothing is written.

    seed: of the second training; None is the run's. Splits stay as they were.
    """
    folder = finished(run)
    first = Spec.from_dict(folder.read(RUN)["spec"])
    weights = folder.read_weights()
    if weights["weight"].isna().all():
        raise BadInput(f"{folder.path} is a run of {first.method}, which keeps no weights; give one of forml, say.")
    where = folder.path / REFIT if out is None else Path(out)
    learned = folder.path / WEIGHTS
    rule = {
        "file": os.path.relpath(learned.resolve(), where.resolve().parent),
        "sha256": hashlib.sha256(learned.read_bytes()).hexdigest(),
    }
    spec = first.with_(
        data=with_exemplars_inside(first.data),
        method="given",
        method_options={},
        search={},
        weights=rule,
        seed=first.seed if seed is None else seed,
        data_seed=first.seed if first.data_seed is None else first.data_seed,
    )
    dataset = dataset_for(spec, data_dir, download, beside=folder.path.parent)
    _check_rows(dataset, weights, folder)
    return Prepared(dataset, spec, tried(spec, dataset)), where


def with_exemplars_inside(data: Any) -> dict[str, Any]:
    """The data's options with exemplars left in train, where they were drawn from it.

    Where labels were made wrong on purpose the rows stay as they were: another set would have other wrong ones.
    """
    exemplar = dict(data.get("exemplar") or {})
    if exemplar.get("source", Exemplar().source) != "train" or data.get("corruptions"):
        return dict(data)
    return {**data, "exemplar": {**exemplar, "inside": True}}


def _check_rows(dataset: Dataset, weights: pd.DataFrame, folder: RunFolder) -> None:
    """Refuse data that has changed since: weights would stand beside other samples."""
    names = dataset.label_names
    labels = {
        row: names[label]
        for row, label in zip(dataset.rows["train"].tolist(), dataset.train.labels.tolist(), strict=True)
    }
    then = zip(weights["row"].tolist(), weights["label"].astype(str), strict=True)
    if any(labels.get(row) != label for row, label in then):
        raise BadInput(f"the data has changed since the run in {folder.path}; train it again first.")
