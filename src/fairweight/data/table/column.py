"""What becomes of each column: decided and measured on train rows alone, then applied to any rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairweight.data.options import TableOptions
from fairweight.data.rows import coded
from fairweight.data.table.number_text import in_words
from fairweight.data.table.values import Numbers, TrainColumn, days, numbers
from fairweight.data.texts import canonical, columns_are, listing
from fairweight.errors import BadInput, MissingColumn, Sentence, option

if TYPE_CHECKING:
    import pandas as pd

_ID_NAME = re.compile(
    r"(^|[_\s.-])(id|ids|idx|index|key|uuid|guid|row|rownum|nr|no|number|unnamed: \d+)($|[_\s.-])", re.I
)
FARTHEST = 1e12  # deviations from the mean that an input may be: single precision ends at 1e38
_LEAST_ROWS = 20  # below this, "all different" says nothing


@dataclass(frozen=True)
class Column:
    """A column of inputs: standardised numbers or days, or one place per category."""

    name: str
    kind: Literal["number", "date", "category"]
    form: str = ""  # of numbers or dates, as found in train
    fill: float = 0.0  # median of train: stands for what is missing
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()
    other: bool = False  # whether rare categories share a place; new ones then go there
    missing: bool = False  # whether there is a place that says "was missing"

    def features(self) -> list[str]:
        if self.kind == "category":
            names = [f"{self.name}={value}" for value in self.categories]
            names += [f"{self.name}=(other)"] if self.other else []
        else:
            names = [self.name]
        return names + ([f"{self.name}=(missing)"] if self.missing else [])

    def apply(self, values: pd.Series[Any], notes: list[str], parts: Mapping[str, Any]) -> Numbers:
        """Make the inputs of these rows; what train never showed is named in a note on each of the parts."""
        # [N, features]; parts: positions by name
        if self.kind == "category":
            return self._one_hot(values, notes, parts)
        raw = self.raw(values)
        missing = np.isnan(raw)
        unreadable = missing & values.notna().to_numpy(dtype=bool) if missing.any() else missing
        self._remark(f"is no {self.kind}", unreadable, "read as missing", notes, parts)
        if not self.missing:
            effect = "it never is in train, so the median of train stands in"
            self._remark("is missing", missing, effect, notes, parts)
        with np.errstate(over="ignore"):
            scaled = np.clip((np.where(missing, self.fill, raw) - self.mean) / self.std, -FARTHEST, FARTHEST)
        return np.stack([scaled, missing.astype(np.float64)], axis=1) if self.missing else scaled[:, None]

    def raw(self, values: pd.Series[Any]) -> Numbers:
        """Read the numbers or days before scaling, NaN where there are none."""  # [N]
        return numbers(values, self.form) if self.kind == "number" else days(values, self.form)

    def _one_hot(self, values: pd.Series[Any], notes: list[str], parts: Mapping[str, Any]) -> Numbers:
        codes, texts = coded(values, canonical)
        width = len(self.features())
        positions = {value: index for index, value in enumerate(self.categories)}
        # One place beyond the last stands for "nowhere": new categories without a shared place are all zeros.
        elsewhere = len(self.categories) if self.other else width
        table = [positions.get(text, elsewhere) for text in texts]
        index = np.array([*table, width - 1 if self.missing else width], dtype=np.int64)[codes]  # last: for code -1
        new = (index == width) & (codes >= 0)
        for part, rows in parts.items() if new.any() else ():
            examples = listing(sorted(texts[code] for code in np.unique(codes[rows][new[rows]])), 4)
            problem = f"has values that train never had ({examples})"
            self._remark(problem, new, "all its inputs are 0 there", notes, {part: rows})
        if not self.missing:
            effect = "it never is in train, so all its inputs are 0 there"
            self._remark("is missing", codes < 0, effect, notes, parts)
        return np.concatenate([np.eye(width), np.zeros((1, width))])[index]

    def _remark(
        self, what: str, where: NDArray[np.bool_], effect: str, notes: list[str], parts: Mapping[str, Any]
    ) -> None:
        """Note in how many rows of each part the column is so, where it is in some, and what is done there."""
        for part, rows in parts.items():
            if count := int(where[rows].sum()):
                notes.append(f"Column {self.name!r} {what} in {count:,} of the {part}: {effect}.")


def fit_columns(
    train: Mapping[str, TrainColumn], options: TableOptions, exclude: Sequence[str], notes: list[str]
) -> tuple[Column, ...]:
    """Fit every column that carries something; the others are named in the notes."""
    for name in (*options.numeric, *options.categorical, *options.drop, *options.keep):
        if name not in train:
            raise MissingColumn(f"there is no column {name!r}; {columns_are(name, list(train))}.")
    if both := sorted(set(options.numeric) & set(options.categorical)):
        raise BadInput(f"column {both[0]!r} cannot be both numeric and categorical; name it once.")
    constant: list[str] = []
    ids: list[str] = []
    fitted: list[Column] = []
    for name, column in train.items():
        if name in exclude or name in options.drop:
            continue
        kind, form = column.kind
        if name in options.numeric:
            kind, form = "number", column.number_form
        elif name in options.categorical:
            kind, form = "category", ""
        forced = name in (*options.keep, *options.numeric, *options.categorical)
        codes, distinct = column.factors
        if len(distinct) == 0 or (len(distinct) == 1 and bool((codes >= 0).all())):
            constant.append(name)  # one value or nothing is a sign, and stays
        elif not forced and _is_id(name, column, kind):
            ids.append(name)
        elif kind == "category":
            fitted.append(_fit_category(name, column, options.max_categories, notes))
        else:
            fitted.append(_fit_number(Column(name, "date" if kind == "date" else "number", form), column, notes))
    if options.drop:
        notes.append(f"Left out as asked: {listing(options.drop)}.")
    if constant:
        notes.append(f"Left out because they are constant or empty in train: {listing(constant)}.")
    if ids:
        sentence = f"Left out because they look like ids or free text: {listing(ids)}"
        notes.append(Sentence(f"{sentence} (name those that are not in {option('table.keep')})."))
    if filled := [column.name for column in fitted if column.missing]:
        notes.append(f"Missing values filled and marked by an input of their own: {listing(filled)}.")
    if not fitted and ids:
        raise BadInput(
            f"no column is left to learn from, as these look like ids or free text: {listing(ids)}; name those that "
            f"are not in {option('table.keep')}, or the one that names image files in {option('image.file_column')}."
        )
    if not fitted:
        raise BadInput("no column is left to learn from; name some to keep, or give a table with more columns.")
    return tuple(fitted)


def _is_id(name: str, column: TrainColumn, kind: str) -> bool:
    codes, values = column.factors
    distinct = len(values)
    if distinct < _LEAST_ROWS or kind == "date":
        return False
    if kind == "category":
        # Nine in ten different: nothing that is learned about one value helps with the next.
        return distinct >= 0.9 * int((codes >= 0).sum())
    raw = column.numbers
    if distinct < len(raw) or not np.array_equal(raw, np.floor(raw)):
        return False
    dense = raw.max() - raw.min() + 1 <= 3 * len(raw)
    return bool(_ID_NAME.search(name)) or bool(dense and np.all(np.diff(raw) > 0))


def _fit_category(name: str, train: TrainColumn, most: int, notes: list[str]) -> Column:
    codes, texts = coded(train.values, canonical)
    counts = Counter({texts[code]: count for code, count in Counter(codes.tolist()).items() if code >= 0})
    categories = sorted(sorted(counts, key=lambda value: (-counts[value], value))[:most])
    if len(categories) < len(counts):
        share = 1.0 - sum(counts[value] for value in categories) / counts.total()
        notes.append(
            f"Column {name!r} has {len(counts):,} categories: the {len(categories)} most frequent are kept, the others "
            f"({share:.0%} of rows) share one input."
        )
    missing = bool((codes < 0).any())
    return Column(name, "category", categories=tuple(categories), other=len(categories) < len(counts), missing=missing)


def _fit_number(column: Column, train: TrainColumn, notes: list[str]) -> Column:
    name, kind = column.name, column.kind
    raw = train.numbers if kind == "number" else column.raw(train.values)
    present = raw[~np.isnan(raw)]
    if len(present) == 0:
        raise BadInput(f"column {name!r} was named numeric, and no entry of it in train is a number.")
    if unreadable := [str(value) for value in train.values[np.isnan(raw)].dropna()]:
        notes.append(
            f"Column {name!r}: {len(unreadable):,} entries of train are no {kind} "
            f"({listing(sorted(set(unreadable)), 3)}): read as missing."
        )
    if kind == "date":
        notes.append(f"Column {name!r} holds dates: it is read as days since 1970.")
    elif column.form:
        notes.append(f"Column {name!r} is read as numbers: {in_words(column.form)}.")
    fill = float(np.median(present))
    filled = np.where(np.isnan(raw), fill, raw)
    with np.errstate(over="ignore", under="ignore"):
        mean, std = float(filled.mean()), float(filled.std())
        if filled.min() < filled.max() and not (math.isfinite(mean) and 0 < std < math.inf):
            unit = float(np.abs(filled).max())  # squares of such numbers are beyond what a float holds
            mean, std = unit * float((filled / unit).mean()), unit * float((filled / unit).std())
    return replace(column, fill=fill, mean=mean, std=std or 1.0, missing=len(present) < len(raw))
