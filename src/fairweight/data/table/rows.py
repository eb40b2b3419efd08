"""A frame as rows: its columns as text, for labels and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.data._texts import Texts

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class FrameRows:
    """The rows of one frame."""

    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def names(self) -> Sequence[str]:
        """Its columns."""
        return [str(name) for name in self.frame.columns]

    def texts(self, column: str) -> Texts:
        """One column as text."""
        return as_texts(self.frame[column])

    def order(self, column: str) -> Sequence[str]:
        """The order of a pandas category; other columns have none."""
        import pandas as pd

        kind = self.frame[column].dtype if column in self.frame.columns else None
        return [_text(value) for value in kind.categories] if isinstance(kind, pd.CategoricalDtype) else []


def as_texts(values: pd.Series[Any]) -> Texts:
    """Each entry as stripped text, whole floats without their .0, None where there is none."""
    codes, texts = coded(values)
    return [None if code < 0 else texts[code] for code in codes.tolist()]


def factors(values: pd.Series[Any]) -> tuple[Codes, Any]:
    """Each entry's place among the distinct ones (-1: missing), and those."""
    import pandas as pd

    try:
        codes, distinct = pd.factorize(values)
    except TypeError:  # lists and the like, which have no hash
        codes, distinct = pd.factorize(values.astype(str))
    return codes.astype("int64"), distinct


def coded(values: pd.Series[Any]) -> tuple[Codes, list[str]]:
    """The distinct texts of a column, and each entry's place among them: -1 where there is none."""
    import numpy as np

    found, distinct = factors(values)
    place: dict[str, int] = {}
    table = []
    for value in distinct:
        text = _text(value)
        table.append(place.setdefault(text, len(place)) if text else -1)
    codes = np.array([*table, -1], dtype=np.int64)[found]  # the last entry is for code -1
    return codes, list(place)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else repr(float(value))
    return str(value).strip()
