"""Use the exemplars plainly: train on them alone, beside the other rows, or after them.

    rows = {"train": {"exemplars": "only"}}                         the exemplars take the place of the training rows
    rows = {"train": {"exemplars": "added", "choosing": 0.2}}       they join them; a fifth is kept back to validate
    start = {"runs": [a Spec]}                                      training begins with the model of that run

What a method learns from exemplars must beat these. Exemplars that are trained on cannot also choose the epoch, so
where an epoch is chosen, the share `choosing` of them is kept back for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairweight.data import Dataset
from fairweight.errors import BadInput
from fairweight.runs.folder import RunFolder
from fairweight.runs.spec import Spec
from fairweight.sampling import generator
from fairweight.types import Batch, side_by_side


def with_exemplars(dataset: Dataset, rule: Mapping[str, Any], seed: int) -> Dataset:
    """Put the exemplars in the place of the training rows, or beside them."""
    train, exemplar = dataset.train, dataset.exemplar
    share = rule.get("choosing", 0.0)
    if set(rule) - {"exemplars", "choosing"} or rule["exemplars"] not in ("only", "added"):
        raise BadInput('rows.train.exemplars is "only" or "added"; beside it stands "choosing", a share, alone.')
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise BadInput(f"rows.train.choosing is {share!r}; give the share of exemplars that chooses the epoch, from 0.")
    if not isinstance(train, Batch) or not isinstance(exemplar, Batch):
        raise BadInput("exemplars are trained on from memory, and these stream from a file; raise image.memory_gb.")
    order = torch.randperm(len(exemplar), generator=generator("choosing", seed))
    count = round(share * len(exemplar))
    back, used = order[:count], order[count:]
    # Numbered anew from 0, as the rows of train are; a part of them has no shares of its own.
    taken = replace(exemplar.take(used), rows=None, shares=None)
    alone = rule["exemplars"] == "only"
    places = dataset.rows["exemplar"][used]
    return replace(
        dataset,
        train=taken if alone else replace(side_by_side([replace(train, rows=None, shares=None), taken]), rows=None),
        validation=replace(exemplar.take(back), rows=None, shares=None) if len(back) else dataset.validation,
        rows={**dataset.rows, "train": places if alone else torch.cat([dataset.rows["train"], places])},
        true_labels=None,
        notes=(*dataset.notes, f"Train: {len(used):,} exemplars {'alone' if alone else 'added'}."),
    )


def begin_from(model: nn.Module, spec: Spec, beside: Path) -> None:
    """Give the model the parameters of the run that the Spec starts from."""
    runs = spec.start.get("runs", ())
    if set(spec.start) != {"runs"} or len(runs) != 1:
        raise BadInput("start names the one run to begin from, under 'runs'; give one.")
    RunFolder(beside / Spec.from_dict(runs[0]).folder_name).read_model(model)
