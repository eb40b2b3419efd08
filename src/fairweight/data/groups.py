"""The sensitive columns become groups, crossed where there are several; small cells are always reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from fairweight.data.labels import describe_classes
from fairweight.data.options import GroupOptions
from fairweight.data.rows import OUT, Encoded, Rows, read_column, spans, to_codes
from fairweight.data.texts import Texts, case_variants, columns_are, in_order, listing, to_number, unify
from fairweight.errors import BadInput, MissingColumn, MissingGroups, OneGroup, SmallCell, UnknownName, option

JOIN = " & "  # between the values of crossed groups
OTHER = "other"  # what merged groups are called


def encode_groups(
    parts: Mapping[str, Rows], columns: Sequence[str], options: GroupOptions, notes: list[str]
) -> Encoded:
    """Encode groups by the values of the columns; train's come first, so that no other part moves their codes."""
    title = ",".join(columns)
    if len(set(columns)) != len(columns):
        raise MissingColumn(f"a group column is named twice in {title!r}; name each once.")
    values = crossed([_read_column(parts, column, options, notes) for column in columns])
    for part, span in spans(parts).items():
        lost, total = values[span].count(None), span.stop - span.start
        if lost == 0:
            continue
        if options.missing == "refuse":
            raise MissingGroups(
                f"{lost:,} rows of {part} have no {title!r}; fill them in, or set "
                f"{option('groups.missing', 'unknown')}."
            )
        if lost == total and part in ("test", "exemplar"):
            raise MissingGroups(f"no row of {part} has a {title!r}; group labels are needed there.")
        outcome = " and were left out" if options.missing == "drop" else ": their group is not known"
        notes.append(f"{lost:,} of {total:,} rows of {part} have no {title!r}{outcome}.")
    values, unwanted = _keep_named(values, title, options, notes)
    names: list[str] = []
    trained = set(values[spans(parts)["train"]]) - {None}
    for present in (trained, set(values)):
        names += in_order(text for text in present - unwanted - set(names) if text is not None)
    if len(columns) == 1 and set(names) <= set(order := parts["train"].order(columns[0])):
        names = [name for name in order if name in names]
    if not names:
        raise MissingGroups(f"no row has a {title!r}; fill the column in or leave the group out.")
    if len(names) == 1:
        raise OneGroup(f"{title!r} holds one group only, {names[0]!r}; there is nothing to compare: name another.")
    refuse_ids(names, columns, len(values) - values.count(None))
    notes += case_variants(names, f"groups of {title!r}")
    unseen = [name for name in names if name not in trained]
    if trained and unseen:
        notes.append(f"Warning: train has no row of the group {listing(unseen)}.")
    codes = to_codes(values, names)
    left_out = unwanted | ({None} if options.missing == "drop" else set())
    codes[torch.tensor([text in left_out for text in values])] = OUT
    return Encoded(tuple(names), codes)


def crossed(columns: Sequence[Texts]) -> Texts:
    """Cross columns: their texts joined, None where one of them is missing."""
    if len(columns) == 1:
        return list(columns[0])
    return [None if None in row else JOIN.join(map(str, row)) for row in zip(*columns, strict=True)]


def _read_column(parts: Mapping[str, Rows], column: str, options: GroupOptions, notes: list[str]) -> Texts:
    by_part = {part: read_column(rows, column) for part, rows in parts.items()}
    if all(texts is None for texts in by_part.values()):
        raise MissingColumn(f"there is no group column {column!r}; {columns_are(column, parts['train'].names())}.")
    notes += [f"{part.capitalize()} has no column {column!r}." for part, texts in by_part.items() if texts is None]
    absent = "missing" if options.missing == "group" else None
    filled = [text or absent for part, texts in by_part.items() for text in texts or [None] * len(parts[part])]
    return unify(filled)


def _keep_named(values: Texts, title: str, options: GroupOptions, notes: list[str]) -> tuple[Texts, set[str | None]]:
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
            f"compare two sides of a threshold, such as '{title}>={middle:g}'."
        )
    if len(names) > 1000 or (len(columns) == 1 and len(names) > 20 and 2 * len(names) > rows):
        raise BadInput(f"group {title!r} has {len(names):,} distinct values, probably an id; name another column.")


Floored: TypeAlias = tuple[Encoded, Encoded, list[str]]


def apply_floor(
    labels: Encoded, groups: Encoded | None, options: GroupOptions, spans: dict[str, slice], notes: list[str]
) -> tuple[Encoded, Encoded | None]:
    """Merge, drop, keep or refuse groups with cells of train below the floor, as the options say."""
    compared = groups or Encoded(("",), torch.zeros_like(labels.codes))  # all rows are one group without a name
    for part in ("train", "exemplar"):  # where train has no group labels, the smallest place that must have them
        if part in spans and bool((compared.codes[spans[part]] >= 0).any()):
            labels, compared, more = _apply_floor_to_part(labels, compared, options, part, spans[part])
            notes += more
            break
    return labels, compared if groups else None


def _apply_floor_to_part(labels: Encoded, groups: Encoded, options: GroupOptions, part: str, span: slice) -> Floored:
    floor = options.floor
    counts, small, cells = _count_cells(labels, groups, floor, span)
    if not bool(small.any()):
        return labels, groups, []
    if options.below == "keep":
        return labels, groups, [f"Warning: small cells were kept: {cells} (the floor is {floor})."]
    results = {"merge": _merge_small(labels, groups, floor, span), "drop": _drop_small(labels, groups, floor, span)}
    if (result := results.get(options.below)) is not None:
        return result
    ways = [way for way, result in results.items() if result is not None]  # only what helps is named
    least = int(counts[:, counts.sum(dim=0) > 0].min())
    lower = f", lower {option('groups.floor')} to {least}" if least >= 1 else ""  # a floor is at least 1
    advice = f"set {option('groups.below')} to {', '.join(ways)}{' or ' * bool(ways)}keep{lower}, or give more rows."
    if options.below == "refuse" or groups.names == ("",):
        purpose = "compare" if groups.names[0] else "learn from"
        raise SmallCell(f"too few rows of {part} to {purpose} ({cells}; the floor is {floor}): {advice}")
    raise OneGroup(f"no two groups are left after those below the floor of {floor} ({cells}): {advice}")


def _count_cells(labels: Encoded, groups: Encoded, floor: int, span: slice) -> tuple[Tensor, Tensor, str]:
    """Count each cell's rows [K, G], mask the groups with a cell below the floor [G], and name those cells."""
    used = ((labels.codes >= 0) & (groups.codes >= 0))[span]
    shape = len(labels.names), len(groups.names)
    cells = labels.codes[span][used] * shape[1] + groups.codes[span][used]
    counts = torch.bincount(cells, minlength=shape[0] * shape[1]).view(shape)
    small = (counts < floor).any(dim=0) & (counts.sum(dim=0) > 0)  # a group that is not there has no cell to fill
    small_cells = [
        f"{counts[k, g]} with {labels.names[k]!r}" + (f" in {groups.names[g]!r}" if groups.names[g] else "")
        for g in small.nonzero().flatten().tolist()
        for k in range(shape[0])
        if counts[k, g] < floor
    ]
    more = f"; and {len(small_cells) - 5} more cells" if len(small_cells) > 5 else ""
    return counts, small, "; ".join(small_cells[:5]) + more


def _merge_small(labels: Encoded, groups: Encoded, floor: int, span: slice) -> Floored | None:
    """Make small groups one; None where no two groups would be left."""
    notes: list[str] = []
    while True:
        counts, small, cells = _count_cells(labels, groups, floor, span)
        if not bool(small.any()):
            return labels, groups, notes
        new, why = [OTHER if flag else name for flag, name in zip(small.tolist(), groups.names, strict=True)], cells
        if new.count(OTHER) == 1:
            # One small group alone would only change its name: it takes the next smallest along.
            sizes = counts.sum(dim=0).masked_fill(small | (counts.sum(dim=0) == 0), torch.iinfo(torch.int64).max)
            new[int(sizes.argmin())] = OTHER
            why += f"; {groups.names[int(sizes.argmin())]!r} is the next smallest"
        merged = listing(name for name, to in zip(groups.names, new, strict=True) if to == OTHER != name)
        notes.append(f"Groups merged into {OTHER!r}: {merged} ({why}; the floor is {floor}).")
        before, groups = groups, _renamed(groups, new)
        if len(groups.names) < 2 or len(groups.names) == len(before.names):  # the others have no row in this part
            return None


def _drop_small(labels: Encoded, groups: Encoded, floor: int, span: slice) -> Floored | None:
    """Drop the labels that hardly any group has enough of, and the groups that lack another; None as above."""
    counts = _count_cells(labels, groups, floor, span)[0]
    present = counts.sum(dim=0) > 0  # [G]
    enough = (counts[:, present] >= floor).sum(dim=1)  # [K] groups with enough of a label
    # First as few labels as possible, then also those that only some groups have enough of.
    for rare in (enough == 0, enough < int(present.sum())):
        if len(labels.names) - int(rare.sum()) < 2:
            continue
        kept, notes = _drop(labels, rare), []
        if bool(rare.any()):
            lost = int(((labels.codes >= 0) & (kept.codes < 0)).sum())
            rows = "1 row was" if lost == 1 else f"{lost:,} rows were"
            rare_names = listing(name for name in labels.names if name not in kept.names)
            notes = [f"Warning: {rows} dropped for the label {rare_names}, which is too rare (the floor is {floor})."]
            notes.append(f"Labels that are left: {describe_classes(kept.names)}.")
        _, small, cells = _count_cells(kept, groups, floor, span)
        if not bool(small.any()):
            return kept, groups, notes
        fewer = _drop(groups, small)
        if len(fewer.names) >= 2:
            return kept, fewer, [*notes, f"Groups with fewer than {floor} rows in a cell were dropped: {cells}."]
    return None


def _drop(encoded: Encoded, mask: Tensor) -> Encoded:
    return _renamed(encoded, [None if flag else name for flag, name in zip(mask.tolist(), encoded.names, strict=True)])


def _renamed(encoded: Encoded, new: Sequence[str | None]) -> Encoded:
    """Rename; those that share a name become one, and rows of None are left out."""
    names = sorted(dict.fromkeys(name for name in new if name is not None), key=lambda name: name == OTHER)
    table = [OUT if name is None else names.index(name) for name in new]
    return Encoded(tuple(names), torch.tensor([*table, OUT, -1])[encoded.codes])  # the last two stand for themselves
