"""The parquet files of a run's folder: a row per sample, columns of a fixed kind."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fairweight.data import Dataset
from fairweight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

_NAMES = ("label", "group", "true_label", "predicted", "suggested")  # columns of names, from a fixed list
NEEDED = {
    "weights.parquet": ("row", "label", "group", "score", "weight"),
    "predictions.parquet": ("row", "label", "predicted"),
}


def problem(frame: pd.DataFrame, file: str) -> str | None:
    """What is wrong with the frame read from this file, such as "it has no rows"; None where it has the form."""
    from pandas.api.types import is_integer_dtype, is_numeric_dtype

    columns = [str(name) for name in frame.columns]
    lacking = next((name for name in NEEDED.get(file, ()) if name not in columns), None)
    if lacking is not None:
        return f"it has no column {lacking!r}"
    if len(set(columns)) < len(columns):
        return "it has a column twice"
    if frame.empty:
        return "it has no rows"
    rows = frame["row"]
    if not is_integer_dtype(rows) or rows.isna().any() or rows.duplicated().any() or (rows < 0).any():
        return "its rows are not numbered once each"
    for name in columns:
        values: Any = frame[name]
        if name in _NAMES and (
            values.dtype != "category" or not all(isinstance(n, str) for n in values.cat.categories)
        ):
            return f"its column {name!r} holds no names"
        if name in ("label", "predicted") and values.isna().any():
            return f"its column {name!r} has gaps"
        if name not in _NAMES and not is_numeric_dtype(values):
            return f"its column {name!r} holds no numbers"
        if name not in _NAMES and values.isin([float("inf"), -float("inf")]).any():
            return f"its column {name!r} holds a number without end"
    return None


def to_parquet(tensors: Mapping[str, Tensor], dataset: Dataset) -> bytes:
    """Columns by name, with the names of labels and groups for their codes."""
    import pandas as pd

    columns = {key: t.detach().cpu().numpy() for key, t in tensors.items()}
    frame = pd.DataFrame(columns)
    named = dict.fromkeys(("label", "true_label", "predicted", "suggested"), dataset.label_names)
    for key, names in {**named, "group": dataset.group_names or dataset.label_names}.items():
        if key in columns:  # a code of -1, a group that is not known, becomes a missing value
            frame[key] = pd.Categorical.from_codes(columns[key].astype("int64"), pd.Index(list(names)))
    out = io.BytesIO()
    frame.to_parquet(out, index=False, write_page_checksum=True)
    return out.getvalue()


def read(path: Path, way_out: str) -> pd.DataFrame:
    """Read such a file, or refuse it with a way out."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path, page_checksum_verification=True)
    except (OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:  # pyarrow's own are ValueErrors
        what = str(error).strip().split("\n")[0]
        raise BadInput(f"{path} cannot be read ({what}); {way_out}.") from error
    if found := problem(frame, path.name):
        raise BadInput(f"{path} is not as a run writes it: {found}; {way_out}.")
    return frame
