"""From a run folder, or from a file of predictions, to what an audit is made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight import catalog
from fairweight.apps._source_columns import train_columns
from fairweight.data import Dataset
from fairweight.errors import BadInput, FairweightError, MissingData
from fairweight.metrics import compare, group_table
from fairweight.report import Audit, Baseline, Trained
from fairweight.report.sample_cards import thumbnails, worth_a_picture
from fairweight.report.suspects import detection, suspicion
from fairweight.report.table_rows import SUMMARY
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.metrics import GroupTable

IMAGES = 600  # pictures that a page carries


def audit_of(
    run: str | Path,
    *,
    baseline: str | Path | None = None,
    data_dir: str | Path | None = None,
    images: int = IMAGES,
) -> Audit:
    """What a finished run's folder says, beside plain training on the same data where such a run is known.

    baseline: its folder; None looks among the folders beside the run. images: how many pictures to carry.
    """
    folder = finished(run)
    about, metrics = folder.read(RUN), folder.read(METRICS)
    spec = folder.read_spec()
    missing: list[str] = []
    trained = trained_of(folder, spec, metrics)
    trained = _with_inputs(trained, folder, spec, data_dir, images, missing)
    beside = _baseline(folder, spec, metrics, baseline, missing)
    notes = tuple(str(note) for note in about.get("data", {}).get("notes", ()))
    return Audit(
        title=f"Audit: {source_name(spec)}, {trained.method}",
        facts=_facts(spec, about, metrics),
        metrics=metrics,
        baseline=beside,
        trained=trained,
        notes=notes,
        missing=tuple(missing),
    )


def finished(run: str | Path) -> RunFolder:
    """The folder of a finished run; where it holds several instead, they are named."""
    folder = RunFolder(run)
    if folder.finished:
        return folder
    if not folder.path.is_dir():
        raise MissingData(f"there is no folder {str(run)!r}; give the folder of a finished run.")
    inside = sorted(path.parent.name for path in folder.path.glob(f"*/{METRICS}"))
    if inside:
        some = ", ".join(inside[:5]) + (" ..." if len(inside) > 5 else "")
        raise MissingData(f"{folder.path} holds {len(inside)} runs and is none itself; give one of them: {some}.")
    if (folder.path / RUN).is_file():
        raise MissingData(f"the run in {folder.path} has not come to its end; start the same training again to go on.")
    raise MissingData(f"{folder.path} is no run folder; give one that `fairweight train` wrote.")


def trained_of(folder: RunFolder, spec: Spec, metrics: Mapping[str, Any]) -> Trained:
    """What training left of every sample, without inputs."""
    weights = folder.read_weights()
    scores, path = folder.read_paths("scores"), folder.read_paths("weights")
    ranked = ranked_of(folder, weights)
    record = metrics.get("run", {})
    kept = scores or path
    return Trained(
        method=method_words(spec.method),
        weights=weights,
        suspects=ranked,
        detection=detection(weights, ranked),
        history=record.get("history", ()),
        warnings=record.get("warnings", ()),
        scores=metrics.get("scores", {}),
        path_rows=None if kept is None else kept[0].numpy(),
        score_path=None if scores is None else scores[1].numpy(),
        weight_path=None if path is None else path[1].numpy(),
        grouped=metrics["by"] != "label",
        kind=str(folder.read(PREPROCESSING)["kind"]),
    )


def ranked_of(folder: RunFolder, weights: pd.DataFrame) -> pd.DataFrame:
    """The suspicion of every training sample's label, by its whole score path where that was kept of all."""
    paths = folder.read_paths("scores")
    whole = paths is not None and len(paths[0]) == len(weights)
    return suspicion(weights, paths[1].min(dim=0).values.double().numpy() if paths is not None and whole else None)


def method_words(method: str) -> str:
    """The method as people write it."""
    kind = catalog.load("methods", method)
    return kind.__name__


def source_name(spec: Spec) -> str:
    """The source without the folders that it lies in; bytes of a file's name that are no text are shown as ?."""
    return (Path(spec.source).name or spec.source).encode(errors="replace").decode()


def _facts(spec: Spec, about: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, str]:
    record, data = metrics.get("run", {}), about.get("data", {})
    values = {
        "source": source_name(spec),
        "label": str(data.get("label", spec.label or "")),
        "group": "the label" if metrics["by"] == "label" else ", ".join(data.get("group", metrics["by"])),
        "method": method_words(spec.method),
        "weights": _whose_weights(spec),
        "network": str(spec.network.get("name", "chosen for the data")),
        "epochs": str(record.get("epochs", spec.epochs)),
        "seed": str(spec.seed),
        "trained": str(about.get("date", ""))[:16].replace("T", " "),
        "device": str(about.get("device", "")),
        "fairweight": str(about.get("versions", {}).get("fairweight", "")),
        "run": str(about.get("fingerprint", "")),
    }
    return {key: value for key, value in values.items() if value}


def _whose_weights(spec: Spec) -> str:
    """Of a second training: where the weights come from."""
    names = [Spec.from_dict(values).folder_name for values in spec.weights.get("runs", ())]
    return ", ".join(f"those of {name}" for name in (*names, *filter(None, [spec.weights.get("file")])))


# -- images and columns ---------------------------------------------------------------------------


def _with_inputs(
    trained: Trained, folder: RunFolder, spec: Spec, data_dir: str | Path | None, images: int, missing: list[str]
) -> Trained:
    """With pictures or columns of the samples; where the source cannot be read as it was, that is said instead."""
    try:
        dataset = dataset_for(spec, data_dir, beside=folder.beside)
        same = dataset.rows["train"].tolist() == trained.weights["row"].tolist()
    except FairweightError as error:
        missing.append(f"The samples' own images or columns are not shown: {error}")
        return trained
    if not same:
        missing.append("The samples' own images or columns are not shown: the source has changed since the run.")
        return trained
    if dataset.kind == "table":
        return replace(trained, columns=train_columns(spec, dataset, data_dir))
    places = worth_a_picture(trained, images)
    if not places:
        return trained
    if len(places) < len(trained.weights):
        missing.append(
            f"The page carries the pictures of {len(places):,} samples: the most suspect, and those weighted up and "
            "down most. --images carries more."
        )
    return replace(trained, images=thumbnails(_pixels(dataset, places), places))


def _pixels(dataset: Dataset, places: list[int]) -> Any:
    import torch

    inputs = dataset.train.take(torch.tensor(places)).inputs
    assert isinstance(inputs, torch.Tensor)
    return inputs.cpu().numpy()


# -- the baseline ---------------------------------------------------------------------------------


def _baseline(
    folder: RunFolder, spec: Spec, metrics: Mapping[str, Any], asked: str | Path | None, missing: list[str]
) -> Baseline | None:
    other = finished(asked) if asked is not None else _found_beside(folder, spec)
    if other is None:
        return None
    theirs, their_spec = other.read(METRICS), other.read_spec()
    if theirs["by"] != metrics["by"] or theirs["labels"] != metrics["labels"]:
        raise BadInput(f"{other.path} was tested on other labels or groups; give a baseline of the same data.")
    apart: dict[str, dict[str, Any]] = {}
    tables = _tables(folder, other)
    if tables is None:
        missing.append(
            f"Differences from {method_words(their_spec.method)} carry no interval: the two runs were not tested on "
            "the same samples, or kept no predictions."
        )
    else:
        for name in SUMMARY:
            found = compare(tables[0], tables[1], name)
            limits = {"value": found.value, "low": found.low, "high": found.high}
            plain = {key: None if math.isnan(number) else number for key, number in limits.items()}
            apart[name] = {**plain, "beyond": found.beyond_interval}
    return Baseline(method_words(their_spec.method), theirs, apart)


def _found_beside(folder: RunFolder, spec: Spec) -> RunFolder | None:
    """A finished run of plain training on the same data inside the run's folder or beside it, the same seed's first."""
    if spec.method == "uniform":
        return None
    found: list[tuple[bool, str, RunFolder]] = []
    here = folder.path.resolve()
    for path in sorted([*here.glob(f"*/{METRICS}"), *here.parent.glob(f"*/{METRICS}")]):
        other = RunFolder(path.parent)
        try:
            theirs = other.read_spec()
        except FairweightError:
            continue  # another version's run
        if theirs.method == "uniform" and _same_data(theirs, spec):
            found.append((_with_method(theirs, spec) != spec, path.name, other))
    return min(found, key=lambda item: item[:2])[2] if found else None


def _with_method(plain: Spec, spec: Spec) -> Spec:
    """Plain training's settings with the other's method."""
    return plain.with_(method=spec.method, method_options=spec.method_options, weights=spec.weights)


def _same_data(a: Spec, b: Spec) -> bool:
    fields = ("source", "label", "group", "data", "rows")
    seeds = (a.seed if a.data_seed is None else a.data_seed, b.seed if b.data_seed is None else b.data_seed)
    return all(getattr(a, name) == getattr(b, name) for name in fields) and seeds[0] == seeds[1]


def _tables(folder: RunFolder, other: RunFolder) -> tuple[GroupTable, GroupTable] | None:
    """The baseline's table and this run's, on the same test samples; None where they are not."""
    ours, theirs = folder.read_predictions(), other.read_predictions()
    if ours is None or theirs is None or not ours["row"].equals(theirs["row"]):
        return None
    if not ours["label"].astype(str).equals(theirs["label"].astype(str)):
        return None
    return table_of(theirs), table_of(ours)


def table_of(predictions: pd.DataFrame) -> GroupTable:
    """The table by group of a run's predictions."""
    names = [str(name) for name in predictions["label"].cat.categories]
    grouped = "group" in predictions
    return group_table(
        predictions["label"].cat.codes.to_numpy(),
        predictions["predicted"].cat.codes.to_numpy(),
        predictions["group"].cat.codes.to_numpy() if grouped else None,
        label_names=names,
        group_names=[str(name) for name in predictions["group"].cat.categories] if grouped else None,
        missing="ignore",
    )
