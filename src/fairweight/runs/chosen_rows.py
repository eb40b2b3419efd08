"""Choose training rows and exemplars, and mend labels, by what other runs found.

    rows = {"train": {"drop": 0.1, "lowest": "ema_weighted_loss", "runs": [a Spec]}}
    rows = {"train": {"drop": 0.1, "random": 3}}                             a seed
    rows = {"train": {"drop": 0.1, "random": 3, "like": {...}}}              as many of each class as that rule drops
    rows = {"train": {"file": "kept.txt", "sha256": "..."}}                  source rows that stay, one on each line
    rows = {"train": {"exemplars": "only"}}                                  plain_exemplars.py
    rows = {"labels": {"file": "relabelled.csv", "sha256": "..."}}           source rows and their mended labels
    rows = {"exemplar": {"size": 1000, "lowest": "forgetting_events", "runs": [...], "balanced": true}}

The runs and files named lie beside the run that asks; several runs are averaged. Ties are broken by EMA loss, then by
row; with "ties": {"random": 3}, a seed, by chance; with "ties": "learned" by fewest mistakes first. Chosen exemplars
stay in train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.data import Dataset, Part
from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import RunFolder
from fairweight.runs.manifest import read_planned
from fairweight.runs.plain_exemplars import with_exemplars
from fairweight.runs.spec import Spec
from fairweight.sampling import generator
from fairweight.types import Batch

MEASURES = (
    "ema_weighted_loss",
    "ema_relative_weighted_loss",
    "ema_set_weighted_loss",
    "ema_relative_loss",
    "ema_loss",
    "forgetting_events",
    "score",
)
_KEYS = {
    "train": ("drop", "lowest", "runs", "within", "ties", "random", "like", "file", "sha256"),
    "exemplar": ("size", "lowest", "runs", "balanced", "ties"),
    "labels": ("file", "sha256"),
}


def prerequisites(spec: Spec) -> tuple[Spec, ...]:
    """Runs that must be finished before this one can choose its rows, take their weights, or begin from them."""
    found: dict[str, Spec] = {}
    for rule in (*spec.rows.values(), spec.weights, spec.start):
        while rule:
            for values in rule.get("runs", ()):
                other = Spec.from_dict(values)
                found[other.fingerprint] = other
            rule = rule.get("like")
    return tuple(found.values())


def chosen(dataset: Dataset, spec: Spec, beside: Path | None) -> Dataset:
    """Restrict the dataset to the training rows, and give it the exemplars, that the Spec asks for."""
    if set(spec.rows) == {"train"} and "exemplars" in spec.rows["train"]:
        return with_exemplars(dataset, spec.rows["train"], spec.seed if spec.data_seed is None else spec.data_seed)
    strange = sorted(set(spec.rows) - set(_KEYS))
    if strange:
        raise BadInput(f"rows has no part {strange[0]!r}; it chooses train or exemplar, and mends labels.")
    for part, rule in spec.rows.items():
        _check(part, rule)
    if "labels" in spec.rows:
        dataset = _relabelled(dataset, spec.rows["labels"], beside)
    new, train, rows = dataset, dataset.train, dataset.rows["train"]
    if "exemplar" in spec.rows:
        index = _exemplars(dataset, spec.rows["exemplar"], beside)
        new = replace(
            new,
            exemplar=_taken(train, index),
            rows={**new.rows, "exemplar": rows[index]},
            notes=(*new.notes, f"Exemplar set: {len(index):,} rows of train, where they stay, chosen by other runs."),
        )
    if "train" in spec.rows:
        index = torch.nonzero(~_dropped(dataset, spec.rows["train"], beside)).flatten()
        new = replace(
            new,
            train=_taken(train, index),
            rows={**new.rows, "train": rows[index]},
            true_labels=None if dataset.true_labels is None else dataset.true_labels[index],
            notes=(
                *new.notes,
                f"Train: {len(index):,} of {len(train):,} rows stay, chosen by other runs or at random.",
            ),
        )
    return new


def _check(part: str, rule: Mapping[str, Any]) -> None:
    strange = sorted(set(rule) - set(_KEYS[part]))
    if strange:
        raise BadInput(f"rows.{part} has no {strange[0]!r}; it has: {', '.join(_KEYS[part])}.")
    if "lowest" in rule and rule["lowest"] not in MEASURES:
        raise BadInput(f"rows.{part}.lowest is {rule['lowest']!r}; choose from: {', '.join(MEASURES)}.")
    if "ties" in rule and ("lowest" not in rule or (rule["ties"] != "learned" and set(rule["ties"]) != {"random"})):
        words = 'give {"random": a seed} or "learned"'
        raise BadInput(f'rows.{part}.ties says who goes first of equals by "lowest"; {words}.')
    if "file" in rule:
        if set(rule) != {"file", "sha256"}:
            raise BadInput(f"rows.{part}.file names the rows; give it with its sha256 and nothing else.")
        return
    if part == "train" and not 0 < float(rule.get("drop", 0)) < 1:
        raise BadInput("rows.train.drop is the share of rows to leave out; give a number between 0 and 1.")
    if part == "train" and ("lowest" in rule) == ("random" in rule):
        raise BadInput("rows.train drops the lowest by a measure, or at random; give one of 'lowest' and 'random'.")


def _relabelled(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Dataset:
    """Put the labels of a file, with the columns row and label, in the place of those that were given."""
    import io

    import pandas as pd

    path = Path(rule["file"]) if beside is None else beside / rule["file"]
    table = pd.read_csv(io.BytesIO(read_planned(path, rule["sha256"], "holds mended labels")), dtype={"label": str})
    if not {"row", "label"} <= set(table.columns):
        raise BadInput(f"{path} has no columns row and label; write it with `fairweight suspects RUN` again.")
    named = dict(zip(table["row"].tolist(), table["label"].tolist(), strict=True))
    code = {name: k for k, name in enumerate(dataset.label_names)}
    labels, changed = dataset.train.labels.clone(), 0
    for place, row in enumerate(dataset.rows["train"].tolist()):
        name = named.get(row)
        if name is None:
            continue
        if name not in code:
            raise BadInput(f"{path} names the label {name!r}, which the data does not have; write the file again.")
        changed += int(labels[place]) != code[name]
        labels[place] = code[name]
    note = f"Train: {changed:,} of {len(labels):,} labels were mended by {path.name}."
    return replace(dataset, train=replace(dataset.train, labels=labels), notes=(*dataset.notes, note))


def _dropped(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Mask of the training samples that go."""  # [N] bool
    if "file" in rule:
        path = Path(rule["file"]) if beside is None else beside / rule["file"]
        content = read_planned(path, rule["sha256"], "lists the rows to train on")
        listed = torch.tensor([int(line) for line in content.decode().split()], dtype=torch.int64)
        return ~torch.isin(dataset.rows["train"], listed)
    labels = dataset.train.labels.cpu()
    gone = torch.zeros(len(labels), dtype=torch.bool)
    wanted = None  # [K] how many of each class go; None: the first of all
    if "random" in rule:
        order = torch.randperm(len(labels), generator=generator("subset", int(rule["random"])))
        if like := rule.get("like"):
            _check("train", like)
            wanted = torch.bincount(labels[_dropped(dataset, like, beside)], minlength=len(dataset.label_names))
    else:
        order = _order(dataset, rule, beside)
        if rule.get("within", "all") != "all":
            sizes = torch.bincount(labels, minlength=len(dataset.label_names))
            wanted = (sizes.double() * float(rule["drop"])).round().long()
    if wanted is None:
        gone[order[: round(float(rule["drop"]) * len(labels))]] = True
    else:
        for label, number in enumerate(wanted.tolist()):
            gone[order[labels[order] == label][:number]] = True
    return gone


def _exemplars(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train of the exemplars."""  # [E]
    size, classes = int(rule["size"]), len(dataset.label_names)
    order = _order(dataset, rule, beside)
    if not rule.get("balanced", True):
        return order[:size].sort().values
    labels = dataset.train.labels.cpu()
    if size % classes or size < classes:
        raise BadInput(f"rows.exemplar.size is {size} for {classes} classes; give a multiple.")
    picked = [order[labels[order] == label][: size // classes] for label in range(classes)]
    return torch.cat(picked).sort().values


def _order(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train from the lowest by the rule's measure to the highest."""  # [N]
    import numpy as np

    if beside is None:
        raise MissingData("rows are chosen by what other runs found; train into a folder that lies beside theirs.")
    specs = [Spec.from_dict(values) for values in rule.get("runs", ())]
    if not specs:
        raise BadInput("rows.lowest is measured by other runs; name them with 'runs'.")
    rows = dataset.rows["train"].numpy()
    by_mistakes = rule.get("ties") == "learned"
    # The measure first, then what breaks ties.
    totals = dict.fromkeys((str(rule["lowest"]), *["mistakes"] * by_mistakes, "ema_loss"), np.zeros(len(rows)))
    for spec in specs:
        weights = RunFolder(beside / spec.folder_name).read_weights().set_index("row").reindex(rows)
        for column in totals:
            if column not in weights:
                raise BadInput(f"the run {spec.folder_name} is of another version and has no {column}; train it again.")
            values = weights[column].to_numpy(dtype="float64")
            if np.isnan(values).any():
                raise BadInput(
                    f"the run {spec.folder_name} has no {column} for {np.isnan(values).sum()} of these rows; name a "
                    "run on the same rows, of a method that keeps it."
                )
            totals[column] = totals[column] + values
    keys = list(totals.values())
    if isinstance(ties := rule.get("ties"), Mapping):
        drawn = torch.randperm(len(rows), generator=generator("ties", int(ties["random"])))
        keys[1:] = [drawn.argsort().numpy()]
    return torch.from_numpy(np.lexsort(keys[::-1]))  # its last key counts most


def _taken(part: Part, index: Tensor) -> Part:
    """Take the samples at these positions, numbered anew from 0."""
    if isinstance(part, Batch):
        return replace(part.take(index), rows=None)
    groups = None if part.groups is None else part.groups[index]
    shares = None if part.shares is None else part.shares[index]
    return replace(part, places=part.places[index], labels=part.labels[index], groups=groups, shares=shares)
