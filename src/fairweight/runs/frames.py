"""The form of the parquet files in a run's folder: which columns they have, and of what kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
