"""Train once more with the weights that a run has learned, on its rows and the exemplars that it held out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fairweight import catalog
from fairweight.apps.judge import Goal
from fairweight.apps.train import Prepared, goal_for
from fairweight.data import Dataset, Exemplar
from fairweight.data.source import SETS
from fairweight.errors import BadInput, MissingData, option
from fairweight.runs.build import build
from fairweight.runs.folder import METRICS, RUN, WEIGHTS, RunFolder
from fairweight.runs.other_runs import checked, learned_weights
from fairweight.runs.own_model import with_trusted_network
from fairweight.runs.run_place import FORML, REFIT, finished
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for


def prepare_refit(
    run: str | Path,
    out: str | Path | None = None,
    *,
    seed: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    network: str | None = None,
    trust_code: bool = False,
) -> tuple[Prepared, Path]:
    """What `fairweight refit` would train, and where; nothing is written.

    seed: of the second training; None is the run's. Splits stay as they were. network: the run's own model, repeated;
    without it, or trust_code, a model that is code is not imported.
    """
    folder = finished(run)
    about, first = folder.read(RUN), with_trusted_network(folder, network, trust_code)
    metrics = folder.read(METRICS)  # refused where it is not as a run writes it
    where = folder.path / REFIT if out is None else Path(out)
    if where.resolve() in (folder.path.resolve(), *folder.path.resolve().parents):
        # To start over there would delete the weights.
        raise BadInput(f"{option('out', where)} is the folder of the run itself or holds it; give another, or none.")
    learned = folder.path / WEIGHTS
    table = checked(folder.read_weights(), str(learned))
    if table["weight"].nunique() < 2:  # empty, or 1 for every row
        learned = folder.path / FORML
        instead = f"refit {learned}, which has" if (learned / RUN).is_file() else "give a run of forml, which learns"
        raise BadInput(f"{folder.path} holds {first.method}, which weighs all samples alike; {instead} weights.")
    rule = {
        "file": os.path.relpath(learned.resolve(), RunFolder(where).beside.resolve()),
        "sha256": hashlib.sha256(learned.read_bytes()).hexdigest(),
    }
    settled = about.get("data", {}).get("options", {}).get("exemplar") or first.data.get("exemplar") or {}
    source = str(settled.get("source", Exemplar().source))  # a named set may have its own way
    data = dict(first.data)
    # Where labels were made wrong on purpose the rows stay as they were: another set would have other wrong ones.
    if source == "train" and not first.rows and not data.get("corruptions"):
        data["exemplar"] = {**(data.get("exemplar") or {}), "inside": True}
    spec = first.with_(
        data=data,
        method="given",
        method_options={},
        search={},
        weights=rule,
        seed=first.seed if seed is None else seed,
        data_seed=first.drawing_seed,
    )
    named = spec.source.replace("_", "-") in catalog.names(SETS)
    if not named and not Path(spec.source).exists() and not any(mark in spec.source for mark in "*?["):
        raise MissingData(
            f"the run in {folder.path} was trained on {spec.source!r}, which is not here; start refit in the folder "
            "that the training was started in."
        )
    dataset = dataset_for(spec, data_dir, beside=folder.beside)
    _check_rows(dataset, table, about, folder)
    lost, notes = len(set(table["row"]) - set(dataset.rows["train"].tolist())), list(dataset.notes)
    if lost:  # of a choice among candidates with corruptions, which would be others on more rows
        notes.append(
            f"{lost:,} rows of the run are kept out, for validation or as exemplars: their labels were not made wrong."
        )
    elif len(dataset.train) == len(table):
        notes.append(f"No exemplar is added to the rows of the run: {_why_none(first, source)}.")
    dataset = replace(dataset, notes=tuple(notes))
    # By its own path: the folder that the relative one starts from may not be there yet.
    weights = learned_weights(dataset, spec.with_(weights={**rule, "file": str(learned.resolve())}), folder.beside)
    built = build(spec, dataset, device, weights=weights)
    return Prepared(dataset, spec, built, _goal(about, metrics, dataset)), where


def _goal(about: Mapping[str, Any], metrics: Mapping[str, Any], dataset: Dataset) -> Goal:
    """What the run was judged by."""
    judge = Spec.from_dict(about["asked"]).judge if isinstance(about.get("asked"), Mapping) else {}
    limits = [judge.get(name) for name in ("bound", "budget")]
    bound, budget = (limit if isinstance(limit, int | float) else None for limit in limits)
    name = judge.get("criterion") or metrics.get("criterion")
    return goal_for(dataset, None if name is None else str(name), bound, budget, each=bool(judge.get("each")))


def _why_none(first: Spec, source: str) -> str:
    inside = (first.data.get("exemplar") or {}).get("inside", False)
    reasons = {
        "they are validation rows, which choose the best epoch": source == "validation",
        "they have a file of their own": source != "train",
        "with more rows, other labels would be made wrong than in the run": first.data.get("corruptions"),
        "which rows it has was chosen by other runs": first.rows,
        "they are among them already": inside,
    }
    return next((why for why, holds in reasons.items() if holds), "they have a file or folder of their own")


def _check_rows(dataset: Dataset, weights: pd.DataFrame, about: Mapping[str, Any], folder: RunFolder) -> None:
    """Refuse data that has changed since: weights would stand beside other samples."""
    content = about.get("data", {}).get("content")
    changed = content is not None and content != json.loads(json.dumps(dataset.spec["content"]))
    names = [dataset.label_names[label] for label in dataset.train.labels.tolist()]
    labels = dict(zip(dataset.rows["train"].tolist(), names, strict=True))
    then = zip(weights["row"].tolist(), weights["label"].astype(str), strict=True)
    # Of the same content, rows that are not in train are in another part.
    if changed or any(labels.get(row, None if content is None else label) != label for row, label in then):
        raise BadInput(f"the data has changed since the run in {folder.path}; train it again first.")
