"""Weights that other runs have learned, as a value of the Spec, for a second training with them fixed.

    weights = {"runs": [a Spec]}                                    several runs are averaged
    weights = {"file": "weights.parquet", "sha256": "..."}          what a run has written

The runs and files named lie beside the run that asks. Rows that those runs did not train on, such as exemplars that
were held out, count like the mean of their label and group there.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairweight.data import Dataset
from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import RunFolder
from fairweight.runs.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


def learned_weights(dataset: Dataset, spec: Spec, beside: Path) -> Tensor:
    """What each training sample counts."""  # [N]
    frames = _frames(spec.weights, beside)
    total = torch.zeros(len(dataset.train), dtype=torch.float64)
    for name, frame in frames.items():
        found = checked(frame, name).set_index("row").reindex(dataset.rows["train"].numpy())
        weights = torch.tensor(found["weight"].to_numpy(dtype="float64"))  # [N] NaN: not of that run's rows
        if not bool(weights.isfinite().any()):
            raise BadInput(f"{name} has no weight for any of these rows; name a run of the same data, with weights.")
        total += _filled(weights, dataset)
    return total / len(frames)


def checked(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table, where it is one that a run writes; weights may be missing of all rows, not of some."""
    from pandas.api.types import is_numeric_dtype

    whole = len(frame) > 0 and {"row", "label", "weight"} <= set(frame)
    if (
        not whole
        or not all(is_numeric_dtype(frame[key]) for key in ("row", "weight"))
        or frame["row"].duplicated().any()
    ):
        raise BadInput(f"{name} is not as a run writes it; train that run again.")
    weights = torch.tensor(frame["weight"].to_numpy(dtype="float64"))  # [N]
    strange = int((~(weights.isfinite() & (weights >= 0))).sum())
    if not bool(weights.isnan().all()) and (strange or not bool((weights > 0).any())):
        cause = f"{strange:,} rows whose weight is no number from 0" if strange else "no weight above 0"
        raise BadInput(f"{name} has {cause}; train that run again.")
    return frame


def _filled(weights: Tensor, dataset: Dataset) -> Tensor:
    """The weights with the mean of each label and group where there is none; where the cell has none, of the label."""
    labels = dataset.train.labels.cpu()
    groups = torch.zeros_like(labels) if dataset.train.groups is None else dataset.train.groups.cpu().clamp_min(-1) + 1
    known = weights.isfinite()
    for key in (labels * (int(groups.max()) + 1) + groups, labels, torch.zeros_like(labels)):
        missing = ~weights.isfinite()
        if not bool(missing.any()):
            break
        size = int(key.max()) + 1
        sums = torch.zeros(size, dtype=weights.dtype).index_add(0, key[known], weights[known])
        means = sums / torch.bincount(key[known], minlength=size)  # NaN where a key has no row with a weight
        weights = torch.where(missing, means[key], weights)
    return weights


def _frames(rule: Mapping[str, Any], beside: Path) -> dict[str, pd.DataFrame]:
    """By what to call them in a sentence: the tables with a row per sample."""
    if set(rule) == {"runs"} and rule["runs"]:
        names = [Spec.from_dict(values).folder_name for values in rule["runs"]]
        return {f"the run {name}": RunFolder(beside / name).read_weights() for name in names}
    if set(rule) != {"file", "sha256"}:
        raise BadInput("weights are those of 'runs', or of a 'file' with its 'sha256'; give one of the two.")
    import pandas as pd

    path = beside / rule["file"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingData(
            f"{path}, which holds the weights to train with, cannot be read ({error.strerror})."
        ) from error
    if hashlib.sha256(content).hexdigest() != rule["sha256"]:
        raise BadInput(f"{path} has changed since the run was planned; plan it again.")
    return {str(path): pd.read_parquet(io.BytesIO(content))}
