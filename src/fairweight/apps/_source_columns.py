"""The source's own columns of the training samples, as people know them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairweight.data import Dataset, Request
from fairweight.data.source import find, folders
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import options_from

if TYPE_CHECKING:
    import pandas as pd


def train_columns(spec: Spec, dataset: Dataset, data_dir: str | Path | None = None) -> pd.DataFrame | None:
    """One row per training sample, in the order of its rows; None where the source is no table."""
    request = Request(spec.label, None, folders(data_dir), False, dataset.spec["seed"], options_from(spec.data))
    rows = find(spec.source, request).parts["train"]  # every training sample is of the part that was given as train
    if rows.pixels is not None:
        return None
    return rows.frame.iloc[dataset.rows["train"].numpy()].reset_index(drop=True)
