"""Cells with too few rows to compare: refused, merged, dropped or kept, as the user says, and always reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from fairweight.data._rows import Encoded
from fairweight.data._texts import listing
from fairweight.data.groups import OTHER
from fairweight.data.options import GroupOptions
from fairweight.errors import BadInput, OneGroup, SmallCell, option

Mended: TypeAlias = "tuple[Encoded, Encoded | None, list[str]]"


def apply_floor(
    labels: Encoded, groups: Encoded | None, options: GroupOptions
) -> tuple[Encoded, Encoded | None, list[str]]:
    """Labels and groups without cells of train below the floor, or with them where the user says so."""
    if options.floor < 1:
        raise BadInput(
            f"{option('groups.floor')} is {options.floor}; give at least 1, which lets every cell that has a row pass."
        )
    if groups is None:
        return _class_floor(labels, options)
    # Where train has no group labels, the exemplar set is the smallest place that must have them.
    known = [part for part in ("train", "exemplar") if part in groups.codes and bool((groups.codes[part] >= 0).any())]
    if not known:
        return labels, groups, []
    part = known[0]
    counts = _counts(labels, groups, part)  # [K, G]
    small = _below(counts, options.floor)  # [G]
    if not bool(small.any()):
        return labels, groups, []
    cells = _small_cells(counts, small, labels.names, groups.names, options.floor)
    if options.below == "keep":
        return labels, groups, [f"Warning: small cells were kept: {cells} (the floor is {options.floor})."]
    if options.below == "refuse":
        raise SmallCell(
            f"too few rows of {part} to compare ({cells}; the floor is {options.floor}): "
            f"{_ways_out(labels, groups, options.floor, part)}."
        )
    mended = _merged if options.below == "merge" else _without
    done = mended(labels, groups, options.floor, part)
    if done is None:
        raise OneGroup(
            f"no two groups are left after those below the floor of {options.floor} ({cells}): "
            f"{_ways_out(labels, groups, options.floor, part)}."
        )
    return done


def _ways_out(labels: Encoded, groups: Encoded, floor: int, part: str) -> str:
    """What can be done about small cells, each tried: only what helps is named."""
    ways = ["merge"] * (_merged(labels, groups, floor, part) is not None)
    ways += ["drop"] * (_without(labels, groups, floor, part) is not None)
    said = f"set {option('groups.below')} to {', '.join(ways)}{' or ' if ways else ''}keep"
    return f"{said}{_lower(_counts(labels, groups, part))}, or give more rows"


def _lower(counts: Tensor) -> str:
    """Advice to lower the floor, where every cell has a row; a floor is at least 1."""
    least = int(counts[:, counts.sum(dim=0) > 0].min())
    return f", lower {option('groups.floor')} to {least}" if least >= 1 else ""


def _below(counts: Tensor, floor: int) -> Tensor:
    """Groups with a cell below the floor; one that the part lacks altogether has no cell to fill."""  # [G]
    return (counts < floor).any(dim=0) & (counts.sum(dim=0) > 0)


def _merged(labels: Encoded, groups: Encoded, floor: int, part: str) -> Mended | None:
    """With small groups made one, or None where no two would be left."""
    notes: list[str] = []
    while bool((small := _below(counts := _counts(labels, groups, part), floor)).any()):
        cells = _small_cells(counts, small, labels.names, groups.names, floor)
        gone = [groups.names[i] for i in small.nonzero().flatten().tolist()]
        before, groups = groups, _merge(groups, small, counts)
        notes.append(f"Groups {listing(gone)} became part of {OTHER!r}: {cells} (the floor is {floor}).")
        if len(groups.names) < 2 or len(groups.names) == len(before.names):  # the others have no row in this part
            return None
    return labels, groups, notes


def _without(labels: Encoded, groups: Encoded, floor: int, part: str) -> Mended | None:
    """Without the labels that hardly any group has enough of, and the groups that lack another; None as above."""
    there = (counts := _counts(labels, groups, part)).sum(dim=0) > 0  # [G]
    filled = (counts[:, there] >= floor).sum(dim=1)  # [K] groups with enough of a label
    # First as few labels as possible, then also those that only some groups have enough of.
    for rare in (filled == 0, filled < int(there.sum())):
        if len(labels.names) - int(rare.sum()) < 2:
            continue
        kept, notes = _without_labels(labels, rare, floor) if bool(rare.any()) else (labels, [])
        small = _below(counts := _counts(kept, groups, part), floor)
        if not bool(small.any()):
            return kept, groups, notes
        fewer = _drop(groups, small)
        if len(fewer.names) >= 2:
            cells = _small_cells(counts, small, kept.names, groups.names, floor)
            return kept, fewer, [*notes, f"Groups with fewer than {floor} rows in a cell were dropped: {cells}."]
    return None


def _without_labels(labels: Encoded, rare: Tensor, floor: int) -> tuple[Encoded, list[str]]:
    gone = rare.nonzero().flatten()
    lost = sum(int((torch.isin(codes, gone) & labels.keep[part]).sum()) for part, codes in labels.codes.items())
    names = listing(labels.names[k] for k in gone.tolist())
    rows = "1 row was" if lost == 1 else f"{lost:,} rows were"
    note = f"Warning: {rows} dropped for the label {names}, of which too few groups have {floor} rows."
    left = _drop(labels, rare)
    return left, [note, _left(left)]


def _left(labels: Encoded) -> str:
    """What the labels are now; which one counts as positive may have changed."""
    if len(labels.names) == 2:
        return f"Labels that are left: 0 is {labels.names[0]!r}, 1 (the positive class) is {labels.names[1]!r}."
    return f"Labels that are left: {len(labels.names)} classes, {listing(labels.names)}."


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
    if new.count(OTHER) == 1:
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
    enough = len(labels.names) - int(small.sum()) >= 2
    if options.below != "drop" or not enough:
        raise SmallCell(
            f"too few rows of train to learn from ({cells}; the floor is {options.floor}): set "
            f"{option('groups.below')} to {'drop or ' * enough}keep, lower {option('groups.floor')} to "
            f"{int(counts.min())}, or give more rows."
        )
    left = _drop(labels, small)
    return left, None, [_left(left), f"Labels with fewer than {options.floor} rows were dropped: {cells}."]
