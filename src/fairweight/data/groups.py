"""The sensitive columns become groups, crossed where there are several; small cells are always reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fairweight.data._rows import Encoded, Rows, all_kept, read_column, to_codes
from fairweight.data._texts import Texts, columns_are, in_order, listing, to_number, twins, unify
from fairweight.data.options import GroupOptions
from fairweight.errors import BadInput, MissingColumn, MissingGroups, OneGroup, SmallCell, UnknownName

JOIN = " & "  # between the values of crossed groups
OTHER = "other"  # what merged groups are called


def encode_groups(parts: Mapping[str, Rows], columns: Sequence[str], options: GroupOptions) -> Encoded:
    """Groups by the values of the columns; train's come first, so that no other part moves their codes."""
    title = ",".join(columns)
    if len(set(columns)) != len(columns):
        raise MissingColumn(f"a group column is named twice in {title!r}; name each once.")
    values, notes = _crossed(parts, columns, options)
    keep = all_kept(values)
    for part, texts in values.items():
        lost = torch.tensor([text is None for text in texts], dtype=torch.bool)
        count = int(lost.sum())
        if count == 0:
            continue
        if options.missing == "refuse":
            raise MissingGroups(
                f"{count:,} rows of {part} have no {title!r}; fill them in, or allow them with groups.missing=unknown."
            )
        if count == len(texts) and part in ("test", "exemplar"):
            raise MissingGroups(f"no row of {part} has a {title!r}; group labels are needed there.")
        if options.missing == "drop":
            keep[part] &= ~lost
            notes.append(f"{count:,} of {len(texts):,} rows of {part} have no {title!r} and were left out.")
        else:
            notes.append(f"{count:,} of {len(texts):,} rows of {part} have no {title!r}: their group is not known.")
    values = _only(values, keep, title, options, notes)
    names = _ordered(values, keep)
    if len(columns) == 1 and set(names) <= set(order := parts["train"].order(columns[0])):
        names = [name for name in order if name in names]
    _check_names(names, columns, title, [text for texts in values.values() for text in texts])
    notes += twins(names, f"groups of {title!r}")
    trained = {text for text in values["train"] if text is not None}
    unseen = [name for name in names if name not in trained]
    if trained and unseen:
        notes.append(f"Warning: train has no row of the group {listing(unseen)}.")
    codes = {part: to_codes(texts, names) for part, texts in values.items()}
    return Encoded(tuple(names), codes, keep, tuple(notes))


def apply_floor(
    labels: Encoded, groups: Encoded | None, options: GroupOptions
) -> tuple[Encoded, Encoded | None, list[str]]:
    """Cells of train below the floor: refused, merged, dropped or kept, as the user says, and always reported."""
    if options.floor < 1:
        raise BadInput(f"groups.floor is {options.floor}; give at least 1, which lets every cell that has a row pass.")
    if groups is None:
        return _class_floor(labels, options)
    # Where train has no group labels, the exemplar set is the smallest place that must have them.
    known = [part for part in ("train", "exemplar") if part in groups.codes and bool((groups.codes[part] >= 0).any())]
    if not known:
        return labels, groups, []
    notes: list[str] = []
    part = known[0]
    while True:
        counts = _counts(labels, groups, part)  # [K, G]
        small = (counts < options.floor).any(dim=0)  # [G]
        # A group that this part lacks altogether was named before; it has no cell to fill.
        small &= counts.sum(dim=0) > 0
        if not bool(small.any()):
            break
        cells = _small_cells(counts, small, labels.names, groups.names, options.floor)
        if options.below == "refuse":
            raise SmallCell(
                f"too few rows of {part} to compare ({cells}; the floor is {options.floor}): set groups.below to "
                "merge, drop or keep, lower groups.floor, or give more rows."
            )
        if options.below == "keep":
            notes.append(f"Warning: small cells were kept: {cells} (the floor is {options.floor}).")
            break
        gone = [groups.names[i] for i in small.nonzero().flatten().tolist()]
        if options.below == "drop":
            groups = _drop(groups, small)
            notes.append(f"Groups with fewer than {options.floor} rows in a cell were dropped: {cells}.")
        else:
            groups = _merge(groups, small, counts)
            notes.append(f"Groups {listing(gone)} became part of {OTHER!r}: {cells} (the floor is {options.floor}).")
        if len(groups.names) < 2:
            raise OneGroup(f"no two groups are left after those below the floor ({cells}); lower groups.floor.")
    return labels, groups, notes


def _crossed(
    parts: Mapping[str, Rows], columns: Sequence[str], options: GroupOptions
) -> tuple[dict[str, Texts], list[str]]:
    notes: list[str] = []
    crossed: dict[str, list[Texts]] = {part: [] for part in parts}
    for column in columns:
        found = {part: read_column(rows, column) for part, rows in parts.items()}
        if all(texts is None for texts in found.values()):
            every = next(iter(parts.values())).names()
            raise MissingColumn(f"there is no group column {column!r}; {columns_are(column, every)}.")
        filled: dict[str, Texts] = {}
        for part, texts in found.items():
            if texts is None:
                notes.append(f"{part.capitalize()} has no column {column!r}.")
            filled[part] = [None] * len(parts[part]) if texts is None else texts
        if options.missing == "group":
            filled = {part: ["missing" if text is None else text for text in texts] for part, texts in filled.items()}
        for part, texts in unify(filled).items():
            crossed[part].append(texts)
    values: dict[str, Texts] = {}
    for part, found_texts in crossed.items():
        rows = zip(*found_texts, strict=True)
        values[part] = [None if None in row else JOIN.join(str(text) for text in row) for row in rows]
    return values, notes


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


def _ordered(values: dict[str, Texts], keep: dict[str, Tensor]) -> list[str]:
    names: list[str] = []
    for part in sorted(values, key=lambda name: name != "train"):
        stays = keep[part].tolist()
        found = {text for text, kept in zip(values[part], stays, strict=True) if kept and text is not None}
        names += in_order(found - set(names))
    return names


def _check_names(names: list[str], columns: Sequence[str], title: str, texts: Texts) -> None:
    if not names:
        raise MissingGroups(f"no row has a {title!r}; fill the column in or leave the group out.")
    if len(names) == 1:
        raise OneGroup(f"{title!r} holds one group only, {names[0]!r}; there is nothing to compare: name another.")
    refuse_ids(names, columns, sum(text is not None for text in texts))


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
        raise BadInput(
            f"group {title!r} has {len(names):,} distinct values and is probably an id; name another column."
        )


def _counts(labels: Encoded, groups: Encoded, part: str) -> Tensor:
    stays = labels.keep[part] & groups.keep[part] & (groups.codes[part] >= 0)
    size = len(labels.names) * len(groups.names)
    cells = labels.codes[part][stays] * len(groups.names) + groups.codes[part][stays]
    return torch.bincount(cells, minlength=size).view(len(labels.names), len(groups.names))


def _small_cells(
    counts: Tensor, small: Tensor, labels: tuple[str, ...], groups: tuple[str, ...], floor: int, most: int = 5
) -> str:
    cells = [
        f"{counts[k, g]} with {labels[k]!r} in {groups[g]!r}"
        for g in small.nonzero().flatten().tolist()
        for k in range(len(labels))
        if counts[k, g] < floor
    ]
    return "; ".join(cells[:most]) + (f"; and {len(cells) - most} more cells" if len(cells) > most else "")


def _drop(groups: Encoded, small: Tensor) -> Encoded:
    gone = small.nonzero().flatten()
    keep = {part: groups.keep[part] & ~torch.isin(codes, gone) for part, codes in groups.codes.items()}
    return _renamed(replace(groups, keep=keep), [None if flag else name for flag, name in _zip(small, groups.names)])


def _merge(groups: Encoded, small: Tensor, counts: Tensor) -> Encoded:
    new: list[str | None] = [OTHER if flag else name for flag, name in _zip(small, groups.names)]
    if new.count(OTHER) == 1 and OTHER not in {n for f, n in _zip(~small, groups.names)}:
        # One small group alone would only change its name: it takes the next smallest along.
        sizes = counts.sum(dim=0).masked_fill(small | (counts.sum(dim=0) == 0), torch.iinfo(torch.int64).max)
        new[int(sizes.argmin())] = OTHER
    return _renamed(groups, new)


def _zip(mask: Tensor, names: tuple[str, ...]) -> list[tuple[bool, str]]:
    return list(zip(mask.tolist(), names, strict=True))


def _renamed(groups: Encoded, new: Sequence[str | None]) -> Encoded:
    """The groups under new names; those that share one become one, and None has no code."""
    names = list(dict.fromkeys(name for name in new if name is not None and name != OTHER))
    names += [OTHER] if OTHER in new else []
    table = torch.tensor([-1 if name is None else names.index(name) for name in new] + [-1])  # last: for code -1
    codes = {part: table[codes] for part, codes in groups.codes.items()}
    return replace(groups, names=tuple(names), codes=codes)


def _class_floor(labels: Encoded, options: GroupOptions) -> tuple[Encoded, None, list[str]]:
    codes, keep = labels.codes["train"], labels.keep["train"]
    counts = torch.bincount(codes[keep], minlength=len(labels.names))
    small = counts < options.floor
    if not bool(small.any()):
        return labels, None, []
    found = [f"{counts[k]} with {labels.names[k]!r}" for k in small.nonzero().flatten().tolist()]
    cells = "; ".join(found[:5]) + (f"; and {len(found) - 5} more labels" if len(found) > 5 else "")
    if options.below == "keep":
        return labels, None, [f"Warning: rare labels were kept: {cells} (the floor is {options.floor})."]
    if options.below != "drop" or len(labels.names) - int(small.sum()) < 2:
        raise SmallCell(
            f"too few rows of train to learn from ({cells}; the floor is {options.floor}): set groups.below to drop or "
            "keep, lower groups.floor, or give more rows."
        )
    left = _drop(labels, small)
    return left, None, [f"Labels with fewer than {options.floor} rows were dropped: {cells}."]
