"""What a run takes from other runs: the rows and exemplars to train on, mended labels, weights, first parameters.

    rows = {"train": {"drop": 0.1, "lowest": "ema_weighted_loss", "runs": [a Spec]}}
    rows = {"train": {"drop": 0.1, "random": 3}}                             a seed
    rows = {"train": {"drop": 0.1, "random": 3, "like": {...}}}              as many of each class as that rule drops
    rows = {"train": {"file": "kept.txt", "sha256": "..."}}                  source rows that stay, one on each line
    rows = {"train": {"exemplars": "only"}}                                  exemplars in place of the training rows
    rows = {"train": {"exemplars": "added", "choosing": 0.2}}                they join them; a fifth is kept to validate
    rows = {"labels": {"file": "relabelled.csv", "sha256": "..."}}           source rows and their mended labels
    rows = {"exemplar": {"size": 1000, "lowest": "forgetting_events", "runs": [...]}}        as many of each class
    weights = {"runs": [a Spec]}                                             fixed ones, for the method given
    weights = {"file": "weights.parquet", "sha256": "..."}                   what a run has written
    start = {"runs": [a Spec]}                                               training begins with the model of that run

The runs and files named lie beside the run that asks; several runs are averaged. Ties are broken by EMA loss, then by
row. Chosen exemplars stay in train. What a method learns from exemplars must beat training on them; those that are
trained on cannot choose the epoch, so where one is chosen, the share `choosing` of them is kept back for that. Rows
that have no weight, such as exemplars that were held out, count like the mean of their label and group.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Part
from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import RunFolder
from fairweight.runs.manifest import read_planned
from fairweight.runs.spec import Spec
from fairweight.sampling import generator
from fairweight.types import Batch, side_by_side

if TYPE_CHECKING:
    import pandas as pd

MEASURES = (
    *("ema_weighted_loss", "ema_relative_weighted_loss", "ema_set_weighted_loss", "ema_relative_loss", "ema_loss"),
    *("forgetting_events", "score"),
)
_FILE = ("file", "sha256")
# "within" and "balanced" say what happens anyway; Specs of earlier records name them.
_KEYS = {
    "train": ("drop", "lowest", "runs", "within", "random", "like", *_FILE),
    "exemplar": ("size", "lowest", "runs", "balanced"),
    "labels": _FILE,
}


def prerequisites(spec: Spec) -> tuple[Spec, ...]:
    """Runs that must be finished before this one can choose its rows, take their weights, or begin from them."""
    specs: dict[str, Spec] = {}
    for rule in (*spec.rows.values(), spec.weights, spec.start):
        while rule:
            named = [Spec.from_dict(values) for values in rule.get("runs", ())]
            specs |= {other.fingerprint: other for other in named}
            rule = rule.get("like")
    return tuple(specs.values())


def chosen(dataset: Dataset, spec: Spec, beside: Path | None) -> Dataset:
    """Restrict the dataset to the training rows, and give it the exemplars, that the Spec asks for."""
    if set(spec.rows) == {"train"} and "exemplars" in spec.rows["train"]:
        return _with_exemplars(dataset, spec.rows["train"], spec.drawing_seed)
    for part, rule in spec.rows.items():
        _check(part, rule)
    if "labels" in spec.rows:
        dataset = _relabelled(dataset, spec.rows["labels"], beside)
    changed, train, rows = dataset, dataset.train, dataset.rows["train"]
    if "exemplar" in spec.rows:
        index = _exemplars(dataset, spec.rows["exemplar"], beside)
        note = f"Exemplar set: {len(index):,} rows of train, where they stay, chosen by other runs."
        changed = _noted(changed, note, exemplar=_taken(train, index), rows={**changed.rows, "exemplar": rows[index]})
    if "train" in spec.rows:
        index = torch.nonzero(~_dropped(dataset, spec.rows["train"], beside)).flatten()
        note = f"Train: {len(index):,} of {len(train):,} rows stay, chosen by other runs or at random."
        true = None if dataset.true_labels is None else dataset.true_labels[index]
        places = {**changed.rows, "train": rows[index]}
        files = [dataset.files[k] for k in index.tolist() if dataset.files]
        changed = _noted(changed, note, train=_taken(train, index), rows=places, true_labels=true, files=tuple(files))
    return changed


def _noted(dataset: Dataset, note: str, **changes: Any) -> Dataset:
    return replace(dataset, notes=(*dataset.notes, note), **changes)


def _check(part: str, rule: Mapping[str, Any]) -> None:
    if part not in _KEYS:
        raise BadInput(f"rows has no part {part!r}; it chooses train or exemplar, and mends labels.")
    if strange := sorted(set(rule) - set(_KEYS[part])):
        raise BadInput(f"rows.{part} has no {strange[0]!r}; it has: {', '.join(_KEYS[part])}.")
    if "lowest" in rule and rule["lowest"] not in MEASURES:
        raise BadInput(f"rows.{part}.lowest is {rule['lowest']!r}; choose from: {', '.join(MEASURES)}.")
    if rule.get("within", "all") != "all" or rule.get("balanced", True) is not True:
        raise BadInput(f"rows.{part} drops over all classes and takes as many exemplars of each; leave the rest out.")
    if "file" in rule and set(rule) != set(_FILE):
        raise BadInput(f"rows.{part}.file names the rows; give it with its sha256 and nothing else.")
    if part != "train" or "file" in rule:
        return
    if not 0 < float(rule.get("drop", 0)) < 1:
        raise BadInput("rows.train.drop is the share of rows to leave out; give a number between 0 and 1.")
    if ("lowest" in rule) == ("random" in rule):
        raise BadInput("rows.train drops the lowest by a measure, or at random; give one of 'lowest' and 'random'.")


def _with_exemplars(dataset: Dataset, rule: Mapping[str, Any], seed: int) -> Dataset:
    """Put the exemplars in the place of the training rows, or beside them."""
    train, exemplar, share = dataset.train, dataset.exemplar, rule.get("choosing", 0.0)
    if set(rule) - {"exemplars", "choosing"} or rule["exemplars"] not in ("only", "added"):
        raise BadInput('rows.train.exemplars is "only" or "added"; beside it stands "choosing", a share, alone.')
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise BadInput(f"rows.train.choosing is {share!r}; give the share of exemplars that chooses the epoch, from 0.")
    if not isinstance(train, Batch) or not isinstance(exemplar, Batch):
        raise BadInput("exemplars are trained on from memory, and these stream from a file; raise image.memory_gb.")
    order = torch.randperm(len(exemplar), generator=generator("choosing", seed))
    back, used = order.tensor_split([round(share * len(exemplar))])
    # Numbered anew from 0, as the rows of train are; a part of them has no shares of its own.
    taken, kept_back = (replace(exemplar.take(part), rows=None, shares=None) for part in (used, back))
    places, how = dataset.rows["exemplar"][used], "alone"
    if rule["exemplars"] == "added":
        taken = replace(side_by_side([replace(train, rows=None, shares=None), taken]), rows=None)
        places, how = torch.cat([dataset.rows["train"], places]), "added"
    note = f"Train: {len(used):,} exemplars {how}."
    validation = kept_back if len(back) else dataset.validation
    rows = {**dataset.rows, "train": places}
    # Of exemplars no file is known.
    return _noted(dataset, note, train=taken, validation=validation, rows=rows, true_labels=None, files=())


def _read(rule: Mapping[str, Any], beside: Path | None, what: str) -> tuple[Path, bytes]:
    path = Path(rule["file"]) if beside is None else beside / rule["file"]
    return path, read_planned(path, rule["sha256"], what)


def _runs(rule: Mapping[str, Any], beside: Path) -> list[RunFolder]:
    return [RunFolder(beside / Spec.from_dict(values).folder_name) for values in rule.get("runs", ())]


def _relabelled(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Dataset:
    """Put the labels of a file, with the columns row and label, in the place of those that were given."""
    import pandas as pd

    path, content = _read(rule, beside, "holds mended labels")
    table = pd.read_csv(io.BytesIO(content), dtype={"label": str})
    if not {"row", "label"} <= set(table.columns):
        raise BadInput(f"{path} has no columns row and label; write it with `fairweight suspects RUN` again.")
    labels = dataset.train.labels
    mended = table.fillna({"label": ""}).drop_duplicates("row", keep="last").set_index("row")["label"]
    named = mended.reindex(dataset.rows["train"].numpy())
    codes = torch.from_numpy(pd.Categorical(named, dataset.label_names).codes.astype("int64"))  # [N] -1: not named
    if len(strange := named[(codes < 0).numpy() & named.notna().to_numpy()]):
        raise BadInput(f"{path} names the label {strange.iloc[0]!r}, which the data does not have; write it again.")
    new = torch.where(codes < 0, labels.cpu(), codes).to(labels.device)
    note = f"Train: {int((new != labels).sum()):,} of {len(labels):,} labels were mended by {path.name}."
    return _noted(dataset, note, train=replace(dataset.train, labels=new))


def _dropped(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Mask of the training samples that go."""  # [N] bool
    if "file" in rule:
        _, content = _read(rule, beside, "lists the rows to train on")
        listed = torch.tensor([int(line) for line in content.decode().split()], dtype=torch.int64)
        return ~torch.isin(dataset.rows["train"], listed)
    labels = dataset.train.labels.cpu()
    gone = torch.zeros(len(labels), dtype=torch.bool)
    if "random" in rule:
        order = torch.randperm(len(labels), generator=generator("subset", int(rule["random"])))
    else:
        order = _order(dataset, rule, beside)
    first = order[: round(float(rule["drop"]) * len(labels))]
    if like := rule.get("like"):
        _check("train", like)
        counts = torch.bincount(labels[_dropped(dataset, like, beside)], minlength=len(dataset.label_names))
        first = _first_of_each(order, labels, counts.tolist())
    gone[first] = True
    return gone


def _first_of_each(order: Tensor, labels: Tensor, counts: list[int]) -> Tensor:
    """The first so many of each class in the order."""
    return torch.cat([order[labels[order] == label][:count] for label, count in enumerate(counts)])


def _exemplars(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train of the exemplars."""  # [E]
    size, classes = int(rule["size"]), len(dataset.label_names)
    order = _order(dataset, rule, beside)
    if size % classes or size < classes:
        raise BadInput(f"rows.exemplar.size is {size} for {classes} classes; give a multiple.")
    return _first_of_each(order, dataset.train.labels.cpu(), [size // classes] * classes).sort().values


def _order(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train from the lowest by the rule's measure to the highest."""  # [N]
    import numpy as np

    if beside is None:
        raise MissingData("rows are chosen by what other runs found; train into a folder that lies beside theirs.")
    runs = _runs(rule, beside)
    if not runs:
        raise BadInput("rows.lowest is measured by other runs; name them with 'runs'.")
    rows = dataset.rows["train"].numpy()
    totals = dict.fromkeys((rule["lowest"], "ema_loss"), np.zeros(len(rows)))  # the second breaks ties
    for run in runs:
        weights, name = run.read_weights().set_index("row").reindex(rows), run.path.name
        for column in totals:
            if column not in weights:
                raise BadInput(f"the run {name} is of another version and has no {column}; train it again.")
            values = weights[column].to_numpy(dtype="float64")
            if np.isnan(values).any():
                raise BadInput(
                    f"the run {name} has no {column} for {np.isnan(values).sum()} of these rows; name a run on the "
                    "same rows, of a method that keeps it."
                )
            totals[column] = totals[column] + values
    return torch.from_numpy(np.lexsort([*totals.values()][::-1]))  # its last key counts most


def _taken(part: Part, index: Tensor) -> Part:
    """Take the samples at these positions, numbered anew from 0."""
    if isinstance(part, Batch):
        return replace(part.take(index), rows=None)
    groups = None if part.groups is None else part.groups[index]
    shares = None if part.shares is None else part.shares[index]
    return replace(part, places=part.places[index], labels=part.labels[index], groups=groups, shares=shares)


def learned_weights(dataset: Dataset, spec: Spec, beside: Path) -> Tensor:
    """Weight of each training sample."""  # [N]
    import pandas as pd

    rule = spec.weights
    if set(rule) == {"runs"} and rule["runs"]:
        frames = {f"the run {run.path.name}": run.read_weights() for run in _runs(rule, beside)}
    elif set(rule) == set(_FILE):
        path, content = _read(rule, beside, "holds the weights to train with")
        frames = {str(path): pd.read_parquet(io.BytesIO(content))}
    else:
        raise BadInput("weights are those of 'runs', or of a 'file' with its 'sha256'; give one of the two.")
    total = torch.zeros(len(dataset.train), dtype=torch.float64)
    for name, frame in frames.items():
        table = checked(frame, name).set_index("row").reindex(dataset.rows["train"].numpy())
        weights = torch.tensor(table["weight"].to_numpy(dtype="float64"))  # [N] NaN: not of that run's rows
        if not bool(weights.isfinite().any()):
            raise BadInput(f"{name} has no weight for any of these rows; name a run of the same data, with weights.")
        total += filled_by_cell(weights, dataset.train.labels, dataset.train.groups)
    return total / len(frames)


def checked(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Refuse a table that no run writes; weights may be missing of all rows, not of some."""
    from pandas.api.types import is_numeric_dtype

    numeric = all(key in frame and is_numeric_dtype(frame[key]) for key in ("row", "weight"))
    if not numeric or frame.empty or "label" not in frame or frame["row"].duplicated().any():
        raise BadInput(f"{name} is not as a run writes it; train that run again.")
    weights = frame["weight"]
    if strange := int((~weights.between(0, math.inf, inclusive="left")).sum()) * int(weights.notna().any()):
        raise BadInput(f"{name} has {strange:,} rows whose weight is no number from 0; train that run again.")
    if weights.max() == 0:
        raise BadInput(f"{name} has no weight above 0; train that run again.")
    return frame


def filled_by_cell(weights: Tensor, labels: Tensor, groups: Tensor | None) -> Tensor:
    """Replace NaN by the mean weight of the sample's label and group, else of its label, else of all."""  # [N]
    import pandas as pd

    codes = torch.zeros_like(labels) if groups is None else groups
    frame = pd.DataFrame({"weight": weights.numpy(), "label": labels.cpu().numpy(), "group": codes.cpu().numpy()})
    filled = frame["weight"]
    for keys in (["label", "group"], ["label"]):
        filled = filled.fillna(frame.groupby(keys)["weight"].transform("mean"))
    return torch.tensor(filled.fillna(frame["weight"].mean()).to_numpy())


def begin_from(model: nn.Module, spec: Spec, beside: Path) -> None:
    """Give the model the parameters of the run that the Spec starts from."""
    runs = _runs(spec.start, beside)
    if set(spec.start) != {"runs"} or len(runs) != 1:
        raise BadInput("start names the one run to begin from, under 'runs'; give one.")
    runs[0].read_model(model)
