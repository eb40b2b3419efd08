"""One column's values as numbers, as days, or as categories; entries that do not fit are missing."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairweight.data.rows import Codes, coded, factors
from fairweight.data.table.number_text import in_english, read_written, with_marks, written_form
from fairweight.data.texts import canonical

if TYPE_CHECKING:
    import pandas as pd


Numbers: TypeAlias = NDArray[np.float64]
# Day and month are told apart by trying; ISO 8601 comes first because nothing else looks like it.
DATE_FORMATS = ("ISO8601", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y/%m/%d")
_DATE_LIKE = re.compile(r"\s*(\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{4}/\d{1,2}/\d{1,2})")
_COMMA_NUMBER = re.compile(r"\s*-?\d+,\d+\s*")
_DECORATED = re.compile(r"[,%(]|[^\x00-\x7f]|\$")  # some number may be written otherwise than float() reads it
_INFINITE = ("inf", "infinity")  # no number to learn from, and no word either: missing among numbers
_MOST = 0.95  # nineteen in twenty: a few stray words do not make a column of numbers one of categories


class Seen:
    """A column of the train rows, and what it holds; each thing is worked out once."""

    def __init__(self, values: pd.Series[Any]) -> None:
        self.values = values
        self.marks = ""  # of fractions and thousands, such as ",.", where they are settled

    @cached_property
    def numbers(self) -> Numbers:
        return numbers(self.values, self.number_form)

    @cached_property
    def number_form(self) -> str:
        """How numbers are written: "" for plainly, "decimal" or "thousands" commas, or a form of number_text."""
        if self.values.dtype.kind in "biufcmM":
            return ""
        texts = self.texts
        if self.marks and (written := [in_english(text, self.marks) for text in texts]) != texts:
            return with_marks(written_form(written), *self.marks)
        if any(_DECORATED.search(text) for text in texts) and (form := written_form(texts)):
            return form
        with_comma = [text for text in texts if "," in text]
        if not with_comma or not all(_COMMA_NUMBER.fullmatch(text) for text in with_comma):
            return ""
        # 1,234 may be a thousand: only where some entry cannot be one is the comma a decimal point.
        return "decimal" if any(len(text.strip().rsplit(",", 1)[1]) != 3 for text in with_comma) else "thousands"

    @cached_property
    def factors(self) -> tuple[Codes, Any]:
        return factors(self.values)

    @cached_property
    def texts(self) -> list[str]:
        """The distinct entries as text, in the order of `factors`."""
        return [str(value) for value in self.factors[1].tolist()]

    @cached_property
    def kind(self) -> tuple[str, str]:
        """What the column holds ("number", "date" or "category"), and the form of its numbers or dates."""
        import pandas as pd

        kind = self.values.dtype
        if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_numeric_dtype(kind):
            return "number", ""
        if pd.api.types.is_datetime64_any_dtype(kind):
            return "date", "ISO8601"
        there = self.values.dropna()
        if isinstance(kind, pd.CategoricalDtype) or len(there) == 0:
            return "category", ""
        finite = np.isfinite(self.numbers)
        strange = self.factors[0][~finite]
        infinite = {code for code in np.unique(strange).tolist() if code >= 0 and _is_infinite(self.texts[code])}
        spelled = int(finite.sum()) + int(np.isin(strange, list(infinite)).sum())
        if spelled >= _MOST * len(there) and bool(np.isfinite(self.numbers).any()):
            return "number", self.number_form
        some = there.iloc[np.unique(np.linspace(0, len(there) - 1, 200).astype(int))]
        if sum(_DATE_LIKE.match(str(text)) is not None for text in some) < 0.8 * len(some):
            return "category", ""
        counts = {form: int(np.isfinite(days(there, form)).sum()) for form in DATE_FORMATS}
        best = max(counts, key=lambda form: counts[form])
        return ("date", best) if counts[best] >= _MOST * len(there) else ("category", "")


def _is_infinite(text: str) -> bool:
    return text.strip().lower().lstrip("+-") in _INFINITE


def numbers(values: pd.Series[Any], form: str = "") -> Numbers:
    """Read a column as float64, NaN where an entry is missing, infinite or no number."""  # [N]
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
        found = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, distinct = factors(values)
        plain = np.asarray(distinct, dtype=object)
        if form not in ("", "decimal", "thousands"):
            plain = np.array([read_written(str(value), form) for value in plain], dtype=object)
        elif form:
            plain = np.array(
                [str(value).replace(",", "." if form == "decimal" else "") for value in plain], dtype=object
            )
        read = np.asarray(pd.to_numeric(plain, errors="coerce"), dtype=np.float64)
        found = np.append(read, np.nan)[codes]
    return np.where(np.isfinite(found), found, np.nan)


def days(values: pd.Series[Any], form: str) -> Numbers:
    """Read a column as days since 1970, NaN where an entry is missing or no date of that form."""  # [N]
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        moments = pd.to_datetime(values, utc=True)
    else:
        codes, distinct = factors(values)  # a date stands in many rows, and is read once
        text = pd.Series(distinct).astype("str").str.strip()
        read = _since(pd.to_datetime(text, format=form, errors="coerce", utc=True))
        return np.append(read, np.nan)[codes]
    return _since(moments)


def _since(moments: pd.Series[Any]) -> Numbers:
    import pandas as pd

    found = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def words(values: pd.Series[Any]) -> tuple[Codes, list[str]]:
    """Find each entry's place among the distinct texts (-1: missing), with one spelling per number, and those."""
    codes, texts = coded(values)
    place: dict[str, int] = {}
    table = [place.setdefault(canonical(text), len(place)) for text in texts]
    return np.array([*table, -1], dtype=np.int64)[codes], list(place)
