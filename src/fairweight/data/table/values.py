"""One column's values as numbers, as days, or as categories; entries that do not fit are missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairweight.data.options import TableOptions
from fairweight.data.rows import Codes, factors
from fairweight.data.table.number_text import reader, ways_of, written_form
from fairweight.errors import BadInput, option

if TYPE_CHECKING:
    import pandas as pd


Numbers: TypeAlias = NDArray[np.float64]
# Day and month are told apart by trying; ISO 8601 comes first because nothing else looks like it.
DATE_FORMATS = ("ISO8601", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y/%m/%d")
_DATE_LIKE = re.compile(r"\s*(\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{4}/\d{1,2}/\d{1,2})")
_NEARLY_ALL = 0.95  # nineteen in twenty: a few stray words do not make a column of numbers one of categories
_EITHER = [".,", ",."]  # the ways of a column that does not tell by itself


class TrainColumn:
    """A column of the train rows, and what it holds; each thing is worked out once."""

    def __init__(self, values: pd.Series[Any], forced: bool = False) -> None:
        self.values, self.forced = values, forced  # forced: the user says that it holds numbers
        self.way = ""  # of writing numbers, where it is settled for the file

    @property
    def is_text(self) -> bool:
        return self.values.dtype.kind not in "biufcmM"

    @cached_property
    def ways(self) -> list[str]:
        return ways_of(self.texts, self.forced) if self.is_text else []

    @cached_property
    def number_form(self) -> str:
        """How numbers are written, as a form of number_text; "" for plainly."""
        if not self.is_text:
            return ""
        return written_form(self.texts, self.way or (*self.ways, ".,")[0], not self.way and self.ways == _EITHER)

    @cached_property
    def _spelled(self) -> Numbers:
        return _read(self.values, self.number_form)

    @cached_property
    def numbers(self) -> Numbers:
        return _finite(self._spelled)

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
        if pd.api.types.is_bool_dtype(kind):  # as text files have them, so that a model takes either
            return "category", ""
        if pd.api.types.is_numeric_dtype(kind) or kind.kind == "m":  # the latter are durations
            return "number", ""
        if pd.api.types.is_datetime64_any_dtype(kind):
            return "date", "ISO8601"
        present = self.values.dropna()
        if isinstance(kind, pd.CategoricalDtype) or len(present) == 0:
            return "category", ""
        # Infinity is no number to learn from and no word either: missing among numbers.
        spelled = int((~np.isnan(self._spelled)).sum())
        if spelled >= _NEARLY_ALL * len(present) and bool(np.isfinite(self.numbers).any()):
            return "number", self.number_form
        sample = present.iloc[np.unique(np.linspace(0, len(present) - 1, 200).astype(int))]
        if sum(_DATE_LIKE.match(str(text)) is not None for text in sample) < 0.8 * len(sample):
            return "category", ""
        counts = {form: int(np.isfinite(days(present, form)).sum()) for form in DATE_FORMATS}
        best = max(counts, key=lambda form: counts[form])
        return ("date", best) if counts[best] >= _NEARLY_ALL * len(present) else ("category", "")


def settle_ways(
    train: Mapping[str, TrainColumn], options: TableOptions, exclude: Collection[str], delimiter: str | None = None
) -> None:
    """Tell columns how numbers are written, where they do not tell by themselves: as given, or as the file shows.

    1.169 is a thousand and more where the file writes 12,5, and a little over one where it writes 12.5; where both
    may be, the user is asked.
    """
    columns = {name: column for name, column in train.items() if column.is_text}
    if options.decimal is not None or options.thousands is not None:
        decimal = options.decimal or ("," if options.thousands == "." else ".")
        thousands = options.thousands or ("," if decimal == "." else ".")
        for column in columns.values():
            shows_another = column.ways and all(way[0] != decimal for way in column.ways)
            column.way = "" if shows_another else decimal + thousands.replace(" ", "_")
        return
    used = {name: column.ways for name, column in columns.items() if name not in exclude}
    comma = next((name for name, ways in used.items() if ways and ways[0][0] == ","), None)
    point = next((name for name, ways in used.items() if len(ways) == 1 and ways[0][0] != ","), None)
    semicolons = ";" in (options.delimiter, delimiter)  # as spreadsheets write where the comma is in numbers
    for name in (name for name, ways in used.items() if ways == _EITHER):
        if name not in (*options.drop, *options.categorical) and (point if comma else semicolons and not point):
            example = next(text for text in columns[name].texts if "." in text or "," in text).strip()
            why = f" (column {comma!r} has a decimal comma, column {point!r} a decimal point)" if comma else ""
            how = f"say which mark stands before a fraction with {option('table.decimal')}"
            raise BadInput(f"column {name!r} holds {example!r}, which may be thousands or a fraction{why}; {how}.")
        columns[name].way = ",." if comma else ""


def numbers(values: pd.Series[Any], form: str = "") -> Numbers:
    """Read a column as float64, NaN where an entry is missing, infinite or no number."""  # [N]
    return _finite(_read(values, form))


def _finite(values: Numbers) -> Numbers:
    return np.where(np.isfinite(values), values, np.nan)


def _read(values: pd.Series[Any], form: str) -> Numbers:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
        return np.asarray(values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))
    if values.dtype.kind == "m":
        return np.asarray(values.dt.total_seconds() / 86_400, dtype=np.float64)
    codes, distinct = factors(values)
    distinct = np.asarray(distinct, dtype=object)
    if form:
        distinct = np.array(list(map(reader(form), map(str, distinct))), dtype=object)
    numbers = np.asarray(pd.to_numeric(distinct, errors="coerce"), dtype=np.float64)
    return np.append(numbers, np.nan)[codes]


def days(values: pd.Series[Any], form: str) -> Numbers:
    """Read a column as days since 1970, NaN where an entry is missing or no date of that form."""  # [N]
    import pandas as pd

    codes, distinct = factors(values)  # a date stands in many rows, and is read once
    texts = pd.Series(distinct).astype("str").str.strip()
    moments = pd.to_datetime(texts, format=form, errors="coerce", utc=True)
    since_1970 = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.append(since_1970.to_numpy(dtype=np.float64, na_value=np.nan), np.nan)[codes]
