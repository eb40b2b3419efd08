"""What each column is and what becomes of it, from train rows alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fairweight.data._texts import columns_are, listing
from fairweight.data.options import TableOptions
from fairweight.data.table.column import Column
from fairweight.data.table.number_text import in_words
from fairweight.data.table.values import Seen, words
from fairweight.errors import BadInput, MissingColumn, Sentence, option

if TYPE_CHECKING:
    pass

_ID_NAME = re.compile(
    r"(^|[_\s.-])(id|ids|idx|index|key|uuid|guid|row|rownum|nr|no|number|unnamed: \d+)($|[_\s.-])", re.I
)
_LEAST_ROWS = 20  # below this, "all different" says nothing


def fit_columns(
    train: Mapping[str, Seen], options: TableOptions, exclude: Sequence[str], notes: list[str]
) -> tuple[Column, ...]:
    """A plan for every column that carries something; the others are named in the notes."""
    for name in (*options.numeric, *options.categorical, *options.drop, *options.keep):
        if name not in train:
            raise MissingColumn(f"there is no column {name!r}; {columns_are(name, list(train))}.")
    if both := sorted(set(options.numeric) & set(options.categorical)):
        raise BadInput(f"column {both[0]!r} cannot be both numeric and categorical; name it once.")
    constant: list[str] = []
    ids: list[str] = []
    filled: list[str] = []
    plans: list[Column] = []
    for name, seen in train.items():
        if name in exclude or name in options.drop:
            continue
        kind, form = seen.kind
        if name in options.numeric:
            kind, form = "number", seen.number_form
        elif name in options.categorical:
            kind, form = "category", ""
        forced = name in (*options.keep, *options.numeric, *options.categorical)
        if _is_constant(seen):
            constant.append(name)
        elif not forced and _is_id(name, seen, kind):
            ids.append(name)
        else:
            plan = _fit_one(name, seen, kind, form, options, notes)
            plans.append(plan)
            if plan.missing:
                filled.append(name)
    if options.drop:
        notes.append(f"Left out as asked: {listing(options.drop)}.")
    if constant:
        notes.append(f"Left out because they are constant or empty in train: {listing(constant)}.")
    if ids:
        said = f"Left out because they look like ids or free text: {listing(ids)}"
        notes.append(Sentence(f"{said} (name those that are not in {option('table.keep')})."))
    if filled:
        notes.append(f"Missing values filled and marked by an input of their own: {listing(filled)}.")
    if not plans:
        raise BadInput("no column is left to learn from; name some to keep, or give a table with more columns.")
    return tuple(plans)


def _is_constant(seen: Seen) -> bool:
    """One value in every row, or none in any; one value or nothing is a sign, and stays."""
    codes, distinct = seen.factors
    return len(distinct) == 0 or (len(distinct) == 1 and bool((codes >= 0).all()))


def _is_id(name: str, seen: Seen, kind: str) -> bool:
    import numpy as np

    codes, values = seen.factors
    distinct = len(values)
    if distinct < _LEAST_ROWS or kind == "date":
        return False
    if kind == "category":
        # Nine in ten different: nothing that is learned about one value helps with the next.
        return distinct >= 0.9 * int((codes >= 0).sum())
    found = seen.numbers
    if distinct < len(found) or not np.array_equal(found, np.floor(found)):
        return False
    dense = found.max() - found.min() + 1 <= 3 * len(found)
    return bool(_ID_NAME.search(name)) or bool(dense and np.all(np.diff(found) > 0))


def _fit_one(name: str, seen: Seen, kind: str, form: str, options: TableOptions, notes: list[str]) -> Column:
    import numpy as np

    values = seen.values
    if kind == "category":
        codes, texts = words(values)
        counts = Counter({texts[code]: count for code, count in Counter(codes.tolist()).items() if code >= 0})
        kept = sorted(
            value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: _room(options)]
        )
        if len(kept) < len(counts):
            share = 1.0 - sum(counts[value] for value in kept) / sum(counts.values())
            notes.append(
                f"Column {name!r} has {len(counts):,} categories: the {len(kept)} most frequent are kept, the others "
                f"({share:.0%} of rows) share one input."
            )
        missing = bool((codes < 0).any())
        return Column(name, "category", categories=tuple(kept), other=len(kept) < len(counts), missing=missing)
    plan = Column(name, "date" if kind == "date" else "number", form=form)
    raw = seen.numbers if kind == "number" else plan.raw(values)
    there = raw[~np.isnan(raw)]
    if len(there) == 0:
        raise BadInput(f"column {name!r} was named numeric, and no entry of it in train is a number.")
    if strange := [str(v) for v in values[np.isnan(raw)].dropna()]:
        notes.append(
            f"Column {name!r}: {len(strange):,} entries of train are no {plan.kind} "
            f"({listing(sorted(set(strange)), 3)}): read as missing."
        )
    if kind == "number" and form:
        notes.append(f"Column {name!r} is read as numbers: {in_words(form)}.")
    if kind == "date":
        notes.append(f"Column {name!r} holds dates: it is read as days since 1970.")
    fill = float(np.median(there))
    whole = np.where(np.isnan(raw), fill, raw)
    std = float(whole.std())
    return Column(
        name, plan.kind, form=form, fill=fill, mean=float(whole.mean()), std=std if std > 0 else 1.0,
        missing=len(there) < len(raw),
    )  # fmt: skip


def _room(options: TableOptions) -> int:
    if options.max_categories < 1:
        raise BadInput(f"{option('table.max_categories')} is {options.max_categories}; give at least 1.")
    return options.max_categories
