"""Which rows are for training, selection, exemplars and test: given, or drawn by cell with a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fairweight.data.draw import by_stratum, proportional, stream
from fairweight.data.options import Exemplar, Split
from fairweight.data.parts import PART_NAMES, Marked, Names
from fairweight.data.rows import Rows
from fairweight.data.texts import listing
from fairweight.errors import BadInput, EmptyCell, MissingColumn, MissingGroups, option


def by_column(given: Mapping[str, Marked], train: Rows, split: Split, notes: list[str]) -> dict[str, Marked]:
    """Take train apart by a column that names each row's part, where one is named."""
    column = split.column
    if column is None:
        return dict(given)
    if column not in train.names():
        raise MissingColumn(f"there is no column {column!r} to split by; the columns are {listing(train.names(), 12)}.")
    texts = train.texts(column)
    row_parts = [PART_NAMES.get((texts[row] or "").lower(), "") for row in given["train"].rows.tolist()]
    if "" in row_parts:
        unknown = texts[int(given["train"].rows[row_parts.index("")])]
        raise BadInput(f"column {column!r} holds {unknown!r}; every row must say train, validation, exemplar or test.")
    if "train" not in row_parts:
        raise BadInput(f"column {column!r} names no row train; there is nothing to learn from.")
    if split.validation == 0.0 and "validation" in row_parts:
        rows = f"{row_parts.count('validation'):,} validation rows of column {column!r}"
        notes.append(f"Train: {rows} are trained on as well.")
        row_parts = ["train" if name == "validation" else name for name in row_parts]
    parts = {name: part for name, part in given.items() if name != "train"}
    for name in dict.fromkeys(row_parts):
        if name in parts:
            raise BadInput(f"the {name} rows are given twice, by column {column!r} and by a file; leave one out.")
        parts[name] = given["train"].take(torch.tensor([part == name for part in row_parts]))
    return parts


def divide(
    given: Mapping[str, Marked], split: Split, exemplar: Exemplar, seed: int, names: Names, notes: list[str]
) -> dict[str, Marked]:
    """Draw train, validation, exemplar and test from what is given; a part that is given is never drawn."""
    parts = dict(given)
    _draw_parts(parts, split, seed, notes)
    if "exemplar" in given:
        _take_exemplar(parts, exemplar.inside, notes)
    else:
        _draw_exemplar(parts, exemplar, seed, names, notes)
    for name, part in parts.items():
        if len(part) == 0:
            raise BadInput(f"the {name} part has no rows; give more data or another split.")
    if "test" not in parts:
        raise BadInput(f"there are no test rows; give {option('split.test')} a share above 0 or a file.")
    chosen, test, natural = parts["exemplar"], parts["test"], parts["train"]
    if (test.groups is None) == (chosen.groups is None):
        covered = chosen.cells(*names)
        if lost := [name for name in test.cells(*names) if name not in covered]:  # nothing will pull for them
            first_lost = "; ".join(lost[:5]) + " ..." * (len(lost) > 5)
            notes.append(f"Warning: the exemplar set has no row with {first_lost}.")
    if chosen.origin == "train" and not bool(torch.isin(chosen.rows, natural.rows).all()):
        natural = natural.joined(chosen)  # as it was before exemplars left it
    parts["exemplar"] = replace(chosen, shares=_shares(chosen, natural, "exemplar" in given))
    return {name: parts[name] for name in ("train", "validation", "exemplar", "test") if name in parts}


def _draw_parts(parts: dict[str, Marked], split: Split, seed: int, notes: list[str]) -> None:
    """Draw test and validation from train, unless they are given."""
    total = len(parts["train"])
    for name, parts_to_fill in (("test", 4), ("validation", 3)):  # so many parts need a row of every cell from here on
        asked, share = getattr(split, name), getattr(split.settled(), name)
        own = name in parts and parts[name].origin == name
        if name in parts and isinstance(asked, float) and (asked > 0 or not own):
            why = f"the data has its own {name} rows" if own else f"column {split.column!r} says which rows are {name}"
            given_share = option(f"split.{name}", f"{asked:g}")
            raise BadInput(f"{why}, so {given_share} would draw none; leave one out.")
        if name in parts or isinstance(share, str) or share == 0.0:
            continue
        train = parts["train"]
        # The share is of all rows; what is left after an earlier draw is smaller.
        sizes = proportional(train.strata(), share * total / len(train), parts_to_fill)
        drawn = by_stratum(train.strata(), sizes, stream(seed, "split", name))
        parts["train"], parts[name] = train.without(drawn), train.take(drawn)
        rows = f"{len(drawn):,} rows drawn from train"
        notes.append(f"{name.capitalize()}: {rows}, stratified by cell (seed {seed}).")


def _draw_exemplar(parts: dict[str, Marked], exemplar: Exemplar, seed: int, names: Names, notes: list[str]) -> None:
    source = exemplar.source
    if source not in parts:
        where = option(f"split.{source}")
        raise BadInput(f"the exemplar set is to come from {source}, which has no rows; give {where} a share.")
    pool = parts[source]
    positions = pool.known().nonzero().flatten()
    if pool.groups is not None and len(positions) == 0:
        raise MissingGroups(
            f"no row of {source} has a group label; take the exemplar set from a part that has them, or from a file."
        )
    candidates = pool.take(positions)
    if source == "validation" and exemplar.size is None:
        how = "all rows with a known group"
    else:
        by_class = exemplar.per == "class" or candidates.groups is None
        candidates = replace(candidates, groups=None) if by_class else candidates
        may_empty = exemplar.inside or source == "validation"
        sizes = _sizes(candidates.strata(), list(candidates.cells(*names)), exemplar, may_empty)
        positions = positions[by_stratum(candidates.strata(), sizes, stream(seed, "split", "exemplar"))]
        least, most = min(sizes.values()), max(sizes.values())
        how = f"{least if least == most else f'{least} to {most}'} per {'class' if by_class else 'cell'}"
    parts["exemplar"] = pool.take(positions)
    where = f"from {source}"
    if source == "train":
        where = "from train, where they stay as well" if exemplar.inside else "held out from train"
        parts["train"] = pool if exemplar.inside else pool.without(positions)
    notes.append(f"Exemplar set: {len(positions):,} rows {where}, {how} (seed {seed}).")


def _take_exemplar(parts: dict[str, Marked], inside: bool, notes: list[str]) -> None:
    """Keep the given exemplars whose group is known; rows that a column names may stay in train as well."""
    whole = parts["exemplar"]
    if inside and whole.origin == "train":
        parts["train"] = parts["train"].joined(whole)
        notes.append(f"The {len(whole):,} exemplars that are named by a column stay in train as well.")
    kept = parts["exemplar"] = whole.take(whole.known())
    lost = len(whole) - len(kept)
    if lost and len(kept) == 0:
        raise MissingGroups("no exemplar that is given has a group label; give exemplars that have them.")
    if lost:
        left_out = f"{lost:,} of {len(whole):,} exemplars"
        notes.append(f"Warning: {left_out} have no group label and pull for none: left out.")


def _sizes(strata: Tensor, names: Sequence[str], exemplar: Exemplar, may_empty: bool) -> dict[int, int]:
    values, counts = torch.unique(strata, return_counts=True)
    if exemplar.size is None:
        even = max(1, round(0.1 * len(strata) / len(values)))
        sizes = torch.minimum(torch.full_like(counts, even), (counts // 5).clamp(min=1))
        sizes = sizes if may_empty else torch.minimum(sizes, counts - 1)
    else:
        sizes = torch.full_like(counts, exemplar.size)
    for size, count, name in zip(sizes.tolist(), counts.tolist(), names, strict=True):
        need, lower = f"the exemplar set needs {size} rows with {name}, and", f"lower {option('exemplar.size')}"
        if size > count:
            raise EmptyCell(f"{need} there are {count}; {lower}.")
        if size == count and not may_empty:
            how = f"{lower}, give more rows, or merge the group"
            raise EmptyCell(f"{need} of the {count} there are none would stay in train; {how}.")
    return dict(zip(values.tolist(), sizes.tolist(), strict=True))


def _shares(exemplar: Marked, natural: Marked, given: bool) -> Tensor | None:
    """Weigh each exemplar such that cells have their natural shares, mean 1; None where those are not known.

    Exemplars that we draw are even by cell, as batches of them are. Those that are given may be of any mix, which a
    batch drawn evenly by cell does away with: there each counts by its cell's natural share.
    """
    if natural.groups is None or exemplar.groups is None:
        natural_cells, cells = natural.labels, exemplar.labels
    else:
        known = natural.groups >= 0
        width = int(max(natural.groups.max(), exemplar.groups.max())) + 1
        natural_cells = natural.labels[known] * width + natural.groups[known]
        cells = exemplar.labels * width + exemplar.groups
    if len(natural_cells) == 0:
        return None
    size = int(max(natural_cells.max(), cells.max())) + 1
    natural_counts = torch.bincount(natural_cells, minlength=size).double()
    counts = torch.bincount(cells, minlength=size).double()
    weights = natural_counts[cells] if given else (natural_counts / counts.clamp(min=1))[cells]
    return (weights / weights.mean()).float() if float(weights.sum()) > 0 else None
