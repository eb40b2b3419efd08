"""Weights that other runs have learned, for a second training with them fixed, and models to begin from.

    weights = {"runs": [a Spec]}                                    several runs are averaged
    weights = {"file": "weights.parquet", "sha256": "..."}          what a run has written
    start = {"runs": [a Spec]}                                      training begins with the model of that run

The runs and files named lie beside the run that asks. Rows that those runs did not train on, such as exemplars that
were held out, count like the mean of their label and group there.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fairweight.data import Dataset
from fairweight.errors import BadInput
from fairweight.runs.folder import RunFolder
from fairweight.runs.manifest import read_planned
from fairweight.runs.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


def learned_weights(dataset: Dataset, spec: Spec, beside: Path) -> Tensor:
    """Weight of each training sample."""  # [N]
    import pandas as pd

    rule = spec.weights
    if set(rule) == {"runs"} and rule["runs"]:
        names = [Spec.from_dict(values).folder_name for values in rule["runs"]]
        frames = {f"the run {name}": RunFolder(beside / name).read_weights() for name in names}
    elif set(rule) == {"file", "sha256"}:
        content = read_planned(beside / rule["file"], rule["sha256"], "holds the weights to train with")
        frames = {str(beside / rule["file"]): pd.read_parquet(io.BytesIO(content))}
    else:
        raise BadInput("weights are those of 'runs', or of a 'file' with its 'sha256'; give one of the two.")
    total = torch.zeros(len(dataset.train), dtype=torch.float64)
    for name, frame in frames.items():
        found = checked(frame, name).set_index("row").reindex(dataset.rows["train"].numpy())
        weights = torch.tensor(found["weight"].to_numpy(dtype="float64"))  # [N] NaN: not of that run's rows
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
    runs = spec.start.get("runs", ())
    if set(spec.start) != {"runs"} or len(runs) != 1:
        raise BadInput("start names the one run to begin from, under 'runs'; give one.")
    RunFolder(beside / Spec.from_dict(runs[0]).folder_name).read_model(model)
