"""The sensitive columns become groups, crossed where there are several; small cells are always reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fairweight.data.options import GroupOptions
from fairweight.data.rows import Encoded, Rows, read_column, spans, to_codes
from fairweight.data.texts import Texts, columns_are, in_order, listing, to_number, twins, unify
from fairweight.errors import BadInput, MissingColumn, MissingGroups, OneGroup, UnknownName, option

JOIN = " & "  # between the values of crossed groups
OTHER = "other"  # what merged groups are called


def encode_groups(parts: Mapping[str, Rows], columns: Sequence[str], options: GroupOptions) -> Encoded:
    """Encode groups by the values of the columns; train's come first, so that no other part moves their codes."""
    title = ",".join(columns)
    if len(set(columns)) != len(columns):
        raise MissingColumn(f"a group column is named twice in {title!r}; name each once.")
    notes: list[str] = []
    values = crossed([_read(parts, column, options, notes) for column in columns])
    for part, span in spans(parts).items():
        count, size = values[span].count(None), span.stop - span.start
        if count == 0:
            continue
        if options.missing == "refuse":
            raise MissingGroups(
                f"{count:,} rows of {part} have no {title!r}; fill them in, or set "
                f"{option('groups.missing', 'unknown')}."
            )
        if count == size and part in ("test", "exemplar"):
            raise MissingGroups(f"no row of {part} has a {title!r}; group labels are needed there.")
        what = " and were left out" if options.missing == "drop" else ": their group is not known"
        notes.append(f"{count:,} of {size:,} rows of {part} have no {title!r}{what}.")
    values, out = _only(values, title, options, notes)
    gone = out | ({None} if options.missing == "drop" else set())
    keep = torch.tensor([text not in gone for text in values], dtype=torch.bool)
    names: list[str] = []
    trained = set(values[spans(parts)["train"]]) - {None}
    for present in (trained, set(values)):
        names += in_order(text for text in present - out - set(names) if text is not None)
    if len(columns) == 1 and set(names) <= set(order := parts["train"].order(columns[0])):
        names = [name for name in order if name in names]
    if not names:
        raise MissingGroups(f"no row has a {title!r}; fill the column in or leave the group out.")
    if len(names) == 1:
        raise OneGroup(f"{title!r} holds one group only, {names[0]!r}; there is nothing to compare: name another.")
    refuse_ids(names, columns, len(values) - values.count(None))
    notes += twins(names, f"groups of {title!r}")
    unseen = [name for name in names if name not in trained]
    if trained and unseen:
        notes.append(f"Warning: train has no row of the group {listing(unseen)}.")
    return Encoded(tuple(names), to_codes(values, names), keep, tuple(notes))


def crossed(columns: Sequence[Texts]) -> Texts:
    """Cross columns: their texts joined, None where one of them is missing."""
    if len(columns) == 1:
        return list(columns[0])
    return [None if None in row else JOIN.join(map(str, row)) for row in zip(*columns, strict=True)]


def _read(parts: Mapping[str, Rows], column: str, options: GroupOptions, notes: list[str]) -> Texts:
    """Read a column of all parts, one after the other."""
    found = {part: read_column(rows, column) for part, rows in parts.items()}
    if all(texts is None for texts in found.values()):
        raise MissingColumn(f"there is no group column {column!r}; {columns_are(column, parts['train'].names())}.")
    notes += [f"{part.capitalize()} has no column {column!r}." for part, texts in found.items() if texts is None]
    absent = "missing" if options.missing == "group" else None
    filled = [text or absent for part, texts in found.items() for text in texts or [None] * len(parts[part])]
    return unify(filled)


def _only(values: Texts, title: str, options: GroupOptions, notes: list[str]) -> tuple[Texts, set[str | None]]:
    """Keep the groups that were named; also gives those whose rows are left out."""
    present = {text for text in values if text is not None}
    if unknown := [name for name in options.only if name not in present]:
        raise UnknownName(f"{title!r} has no group {listing(unknown)}; choose from: {listing(in_order(present), 20)}.")
    rest = present - set(options.only)
    if not options.only or not rest:
        return values, set()
    rows = f"{sum(text in rest for text in values):,} rows of other groups ({listing(in_order(rest))})"
    if options.rest == "drop":
        notes.append(f"{rows} were left out.")
        return values, {*rest}
    notes.append(f"{rows} form the group {OTHER!r}.")
    return [OTHER if text in rest else text for text in values], set()


def refuse_ids(names: Sequence[str], columns: Sequence[str], rows: int) -> None:
    """Refuse groups that are no groups: numbers or ids, most of them with a row or two of their own."""
    title = ",".join(columns)
    numbers = [float(name) for name in names if to_number(name) is not None]
    if len(columns) == 1 and len(numbers) > 20:
        middle = sorted(numbers)[len(numbers) // 2]
        raise BadInput(
            f"group {title!r} has {len(numbers):,} distinct numbers, which is too many groups; "
            f"compare two sides of one, such as '{title}>={middle:g}'."
        )
    if len(names) > 1000 or (len(columns) == 1 and len(names) > 20 and 2 * len(names) > rows):
        raise BadInput(f"group {title!r} has {len(names):,} distinct values, probably an id; name another column.")
