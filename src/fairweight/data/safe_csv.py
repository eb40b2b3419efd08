"""CSV for people who open it in a spreadsheet: no cell of it runs there."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from fairweight.data.texts import to_number
from fairweight.errors import printable

if TYPE_CHECKING:
    import pandas as pd

_RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also as wide letters


def write_csv(frame: pd.DataFrame, out: IO[Any], float_format: str | None = None) -> None:
    """Write a frame; text that a spreadsheet would run gets a quote before it, and control characters are spelled."""
    import pandas as pd

    safe = {}
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            column = column.map(lambda value: safe_cell(value) if isinstance(value, str) else value)
        safe[place] = column
    header = [safe_cell(str(name)) for name in frame.columns]
    pd.DataFrame(safe).to_csv(out, index=False, header=header, float_format=float_format)


def safe_cell(text: str) -> str:
    """A cell's text, after a quote where a spreadsheet would take it for a formula; -1.5 is a number, and stays."""
    begins = text.lstrip(" ").startswith(_RUN) and to_number(text.strip()) is None
    return f"'{printable(text)}" if begins else printable(text)
