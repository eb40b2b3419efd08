"""The sensitive columns become groups, crossed where there are several; small cells are always reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import torch
from torch import Tensor

from fairweight.data.options import GroupOptions
from fairweight.data.rows import Encoded, Rows, read_column, to_codes
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
    values = _read(parts, columns, options, notes)
    keep = {part: torch.ones(len(texts), dtype=torch.bool) for part, texts in values.items()}
    for part, texts in values.items():
        lost = torch.tensor([text is None for text in texts], dtype=torch.bool)
        count = int(lost.sum())
        if count == 0:
            continue
        if options.missing == "refuse":
            raise MissingGroups(
                f"{count:,} rows of {part} have no {title!r}; fill them in, or set "
                f"{option('groups.missing', 'unknown')}."
            )
        if count == len(texts) and part in ("test", "exemplar"):
            raise MissingGroups(f"no row of {part} has a {title!r}; group labels are needed there.")
        if options.missing == "drop":
            keep[part] &= ~lost
            notes.append(f"{count:,} of {len(texts):,} rows of {part} have no {title!r} and were left out.")
        else:
            notes.append(f"{count:,} of {len(texts):,} rows of {part} have no {title!r}: their group is not known.")
    values = _only(values, keep, title, options, notes)
    names: list[str] = []
    for part in sorted(values, key=lambda part: part != "train"):
        stays = set(compress(values[part], keep[part].tolist()))
        names += in_order({text for text in stays if text is not None} - set(names))
    if len(columns) == 1 and set(names) <= set(order := parts["train"].order(columns[0])):
        names = [name for name in order if name in names]
    if not names:
        raise MissingGroups(f"no row has a {title!r}; fill the column in or leave the group out.")
    if len(names) == 1:
        raise OneGroup(f"{title!r} holds one group only, {names[0]!r}; there is nothing to compare: name another.")
    refuse_ids(names, columns, sum(len(texts) - texts.count(None) for texts in values.values()))
    notes += twins(names, f"groups of {title!r}")
    trained = set(values["train"]) - {None}
    unseen = [name for name in names if name not in trained]
    if trained and unseen:
        notes.append(f"Warning: train has no row of the group {listing(unseen)}.")
    codes = {part: to_codes(texts, names) for part, texts in values.items()}
    return Encoded(tuple(names), codes, keep, tuple(notes))


def crossed(columns: Sequence[Texts]) -> Texts:
    """Cross columns: their texts joined, None where one of them is missing."""
    if len(columns) == 1:
        return list(columns[0])
    return [None if None in row else JOIN.join(str(text) for text in row) for row in zip(*columns, strict=True)]


def _read(
    parts: Mapping[str, Rows], columns: Sequence[str], options: GroupOptions, notes: list[str]
) -> dict[str, Texts]:
    found: dict[str, list[Texts]] = {part: [] for part in parts}
    for column in columns:
        read = {part: read_column(rows, column) for part, rows in parts.items()}
        if all(texts is None for texts in read.values()):
            every = next(iter(parts.values())).names()
            raise MissingColumn(f"there is no group column {column!r}; {columns_are(column, every)}.")
        notes += [f"{part.capitalize()} has no column {column!r}." for part, texts in read.items() if texts is None]
        filled: dict[str, Texts] = {part: texts or [None] * len(parts[part]) for part, texts in read.items()}
        if options.missing == "group":
            filled = {part: ["missing" if text is None else text for text in texts] for part, texts in filled.items()}
        for part, texts in unify(filled).items():
            found[part].append(texts)
    return {part: crossed(texts) for part, texts in found.items()}


def _only(
    values: dict[str, Texts], keep: dict[str, Tensor], title: str, options: GroupOptions, notes: list[str]
) -> dict[str, Texts]:
    if not options.only:
        return values
    present = {text for texts in values.values() for text in texts if text is not None}
    if unknown := [name for name in options.only if name not in present]:
        raise UnknownName(f"{title!r} has no group {listing(unknown)}; choose from: {listing(in_order(present), 20)}.")
    rest = in_order(present - set(options.only))
    if not rest:
        return values
    count = sum(text in rest for texts in values.values() for text in texts)
    if options.rest == "drop":
        for part, texts in values.items():
            keep[part] &= torch.tensor([text not in rest for text in texts], dtype=torch.bool)
        notes.append(f"{count:,} rows of other groups ({listing(rest)}) were left out.")
        return values
    notes.append(f"{count:,} rows of other groups ({listing(rest)}) form the group {OTHER!r}.")
    return {part: [OTHER if text in rest else text for text in texts] for part, texts in values.items()}


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
