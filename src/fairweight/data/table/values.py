"""One column's values as numbers, as days, or as categories; entries that do not fit are missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairweight.data._texts import canonical
from fairweight.data.table.rows import coded

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Numbers = np.ndarray[Any, np.dtype[np.float64]]
    from fairweight.data.table.rows import Codes


# Day and month are told apart by trying; ISO 8601 comes first because nothing else looks like it.
DATE_FORMATS = ("ISO8601", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y/%m/%d")
_DATE_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{4}/\d{1,2}/\d{1,2}")
_COMMA_NUMBER = re.compile(r"-?\d+,\d+")


def numbers(values: pd.Series[Any]) -> Numbers:
    """The column as float64, NaN where an entry is missing, infinite or no number."""  # [N]
    import numpy as np
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
        found = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, texts = coded(values)
        plain = pd.Series(_with_points(texts), dtype=object)
        distinct = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        found = np.append(distinct, np.nan)[codes]
    return np.where(np.isfinite(found), found, np.nan)


def days(values: pd.Series[Any], form: str) -> Numbers:
    """The column as days since 1970, NaN where an entry is missing or no date of that form."""  # [N]
    import numpy as np
    import pandas as pd

    codes = None
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        moments = pd.to_datetime(values, utc=True)
    else:
        codes, texts = coded(values)
        moments = pd.to_datetime(pd.Series(texts, dtype=object), format=form, errors="coerce", utc=True)
    since = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    found = np.asarray(since.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    return found if codes is None else np.append(found, np.nan)[codes]


def words(values: pd.Series[Any]) -> tuple[Codes, list[str]]:
    """The distinct texts with one spelling per number, and each entry's place among them: -1 where there is none."""
    import numpy as np

    codes, texts = coded(values)
    place: dict[str, int] = {}
    table = [place.setdefault(canonical(text), len(place)) for text in texts]
    return np.array([*table, -1], dtype=np.int64)[codes], list(place)


def find_kind(values: pd.Series[Any]) -> tuple[str, str]:
    """What a column holds ("number", "date" or "category"), and the form of its dates."""
    import numpy as np
    import pandas as pd

    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
        return "number", ""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return "date", "ISO8601"
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "category", ""
    codes, texts = coded(values)
    there = int((codes >= 0).sum())
    if there == 0:
        return "category", ""
    # Nineteen in twenty: a few stray words do not make a column of numbers one of categories.
    if int(np.isfinite(numbers(values)).sum()) >= 0.95 * there:
        return "number", ""
    like = np.array([_DATE_LIKE.match(text) is not None for text in texts])
    if int(like[codes[codes >= 0]].sum()) >= 0.95 * there:
        counts = {form: int(np.isfinite(days(values, form)).sum()) for form in DATE_FORMATS}
        best = max(counts, key=lambda form: counts[form])
        if counts[best] >= 0.95 * there:
            return "date", best
    return "category", ""


def _with_points(texts: list[str]) -> list[str]:
    """Decimal commas become points, where every entry with a comma has one between digits."""
    with_comma = [text for text in texts if "," in text]
    if not with_comma or not all(_COMMA_NUMBER.fullmatch(text) for text in with_comma):
        return texts
    # 1,234 may be a thousand: only where some entry cannot be one is the comma a decimal point.
    decimal = any(len(text.rsplit(",", 1)[1]) != 3 for text in with_comma)
    return [text.replace(",", "." if decimal else "") for text in texts]
