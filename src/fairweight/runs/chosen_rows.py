"""Training rows and exemplars that are chosen by what other runs found, as a value of the Spec.

    rows = {"train": {"drop": 0.1, "lowest": "ema_weighted_loss", "runs": [a Spec]}}
    rows = {"train": {"drop": 0.1, "random": 3}}                             a seed
    rows = {"train": {"drop": 0.1, "random": 3, "like": {...}}}              as many of each class as that rule drops
    rows = {"train": {"file": "kept.txt", "sha256": "..."}}                  source rows that stay, one on each line
    rows = {"exemplar": {"size": 1000, "lowest": "forgetting_events", "runs": [...], "balanced": true}}

The runs and files named lie beside the run that asks; several runs are averaged. Ties go to the lower EMA loss, then
to the lower row; with "ties": {"random": 3}, a seed, to chance, and with "ties": "learned" to those with fewer
mistakes, which of samples that were never forgotten are those learned earliest. Chosen exemplars stay in train.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.data import Dataset, Part
from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import RunFolder
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
}


def prerequisites(spec: Spec) -> tuple[Spec, ...]:
    """The runs that must be finished before this one can choose its rows, or take their weights."""
    found: dict[str, Spec] = {}
    for rule in (*spec.rows.values(), spec.weights):
        while rule:
            for values in rule.get("runs", ()):
                other = Spec.from_dict(values)
                found[other.fingerprint] = other
            rule = rule.get("like")
    return tuple(found.values())


def chosen(dataset: Dataset, spec: Spec, beside: Path | None) -> Dataset:
    """The dataset with the training rows and exemplars that the Spec asks for."""
    strange = sorted(set(spec.rows) - set(_KEYS))
    if strange:
        raise BadInput(f"rows has no part {strange[0]!r}; it chooses train, exemplar or both.")
    for part, rule in spec.rows.items():
        _check(part, rule)
    new = dataset
    if "exemplar" in spec.rows:
        new = _with_exemplars(new, _exemplars(dataset, spec.rows["exemplar"], beside))
    if "train" in spec.rows:
        new = _restricted(new, ~_dropped(dataset, spec.rows["train"], beside))
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
            raise BadInput("rows.train.file names the rows that stay; give it with its sha256 and nothing else.")
        return
    if part == "train" and not 0 < float(rule.get("drop", 0)) < 1:
        raise BadInput("rows.train.drop is the share of rows to leave out; give a number between 0 and 1.")
    if part == "train" and ("lowest" in rule) == ("random" in rule):
        raise BadInput("rows.train drops the lowest by a measure, or at random; give one of 'lowest' and 'random'.")


def _dropped(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Which training samples go."""  # [N] bool
    if "file" in rule:
        return ~torch.isin(dataset.rows["train"], _listed(rule, beside))
    count = len(dataset.train)
    size = round(float(rule["drop"]) * count)
    gone = torch.zeros(count, dtype=torch.bool)
    labels = dataset.train.labels.cpu()
    if "random" in rule:
        order = torch.randperm(count, generator=generator("subset", int(rule["random"])))
        if rule.get("like") is None:
            gone[order[:size]] = True
            return gone
        _check("train", rule["like"])
        wanted = torch.bincount(labels[_dropped(dataset, rule["like"], beside)], minlength=len(dataset.label_names))
    else:
        order = _order(dataset, rule, beside)
        if rule.get("within", "all") == "all":
            gone[order[:size]] = True
            return gone
        sizes = torch.bincount(labels, minlength=len(dataset.label_names))
        wanted = (sizes.double() * float(rule["drop"])).round().long()
    for label, number in enumerate(wanted.tolist()):
        gone[order[labels[order] == label][:number]] = True
    return gone


def _listed(rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """The source rows that a file lists."""  # [K]
    path = Path(rule["file"]) if beside is None else beside / rule["file"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingData(f"{path}, which lists the rows to train on, cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != rule["sha256"]:
        raise BadInput(f"{path} has changed since the run was planned; plan it again.")
    return torch.tensor([int(line) for line in content.decode().split()], dtype=torch.int64)


def _exemplars(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train of the exemplars."""  # [E]
    size = int(rule["size"])
    order = _order(dataset, rule, beside)
    if not rule.get("balanced", True):
        return order[:size].sort().values
    labels = dataset.train.labels.cpu()
    each, rest = divmod(size, len(dataset.label_names))
    if rest or not each:
        raise BadInput(f"rows.exemplar.size is {size} for {len(dataset.label_names)} classes; give a multiple.")
    picked = [order[labels[order] == label][:each] for label in range(len(dataset.label_names))]
    return torch.cat(picked).sort().values


def _order(dataset: Dataset, rule: Mapping[str, Any], beside: Path | None) -> Tensor:
    """Positions in train from the lowest by the rule's measure to the highest."""  # [N]
    if beside is None:
        raise MissingData("rows are chosen by what other runs found; train into a folder that lies beside theirs.")
    specs = [Spec.from_dict(values) for values in rule.get("runs", ())]
    if not specs:
        raise BadInput("rows.lowest is measured by other runs; name them with 'runs'.")
    rows = dataset.rows["train"].numpy()
    columns = (str(rule["lowest"]), "ema_loss", *(["mistakes"] if rule.get("ties") == "learned" else []))
    totals = torch.zeros(3, len(rows), dtype=torch.float64)  # the measure, and what breaks ties
    for spec in specs:
        weights = RunFolder(beside / spec.folder_name).read_weights().set_index("row").reindex(rows)
        for place, column in enumerate(columns):
            if column not in weights:
                raise BadInput(f"the run {spec.folder_name} is of another version and has no {column}; train it again.")
            values = torch.tensor(weights[column].to_numpy(dtype="float64"))
            if bool(values.isnan().any()):
                raise BadInput(
                    f"the run {spec.folder_name} has no {column} for {int(values.isnan().sum())} of these rows; name a "
                    "run on the same rows, of a method that keeps it."
                )
            totals[place] += values
    if isinstance(rule.get("ties"), Mapping):
        order = torch.randperm(len(rows), generator=generator("ties", int(rule["ties"]["random"])))
    else:
        order = torch.argsort(totals[1], stable=True)
        order = order[torch.argsort(totals[2][order], stable=True)]
    return order[torch.argsort(totals[0][order], stable=True)]


def _restricted(dataset: Dataset, stays: Tensor) -> Dataset:
    index = torch.nonzero(stays).flatten()
    true_labels = None if dataset.true_labels is None else dataset.true_labels[index]
    note = f"Train: {len(index):,} of {len(stays):,} rows stay, chosen by what other runs found or at random."
    return replace(
        dataset,
        train=_taken(dataset.train, index),
        rows={**dataset.rows, "train": dataset.rows["train"][index]},
        true_labels=true_labels,
        notes=(*dataset.notes, note),
    )


def _with_exemplars(dataset: Dataset, index: Tensor) -> Dataset:
    note = f"Exemplar set: {len(index):,} rows of train, where they stay, chosen by what other runs found."
    return replace(
        dataset,
        exemplar=_taken(dataset.train, index),
        rows={**dataset.rows, "exemplar": dataset.rows["train"][index]},
        notes=(*dataset.notes, note),
    )


def _taken(part: Part, index: Tensor) -> Part:
    """The samples at these positions, numbered anew from 0."""
    if isinstance(part, Batch):
        return replace(part.take(index), rows=None)
    groups = None if part.groups is None else part.groups[index]
    shares = None if part.shares is None else part.shares[index]
    return replace(part, places=part.places[index], labels=part.labels[index], groups=groups, shares=shares)
