"""Which rows are for training, selection, exemplars and test: given, or drawn by cell with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fairweight.data._draw import by_stratum, proportional, stream, tally
from fairweight.data._rows import Rows
from fairweight.data._texts import listing
from fairweight.errors import BadInput, EmptyCell, MissingColumn, MissingGroups, option

# How people spell the parts, in a column or as a folder's name.
PART_NAMES = {
    "train": "train", "training": "train", "tr": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation", "eval": "validation",
    "test": "test", "testing": "test", "te": "test", "holdout": "test",
    "exemplar": "exemplar", "exemplars": "exemplar", "meta": "exemplar",
}  # fmt: skip


@dataclass(frozen=True)
class Split:
    """Where validation and test rows come from, when the source does not say."""

    test: float | str | None = None  # share of all rows, or a file; None: 0.2 where the source has no test rows
    validation: float | str | None = None  # share of all rows, or a file; 0: none; None: 0.1 where it has none
    column: str | None = None  # a column that names each row's part

    def __post_init__(self) -> None:
        for name in ("test", "validation"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0.0 <= value < 1.0:
                raise BadInput(f"{option(f'split.{name}')} is {value}; give a share from 0 to below 1, or a file.")
        whole = self.settled()
        shares = [value for value in (whole.test, whole.validation) if isinstance(value, int | float)]
        if sum(shares) >= 1.0:
            both = f"{option('split.test')} and {option('split.validation')}"
            raise BadInput(f"{both} leave no rows for training; make their sum less than 1.")

    def settled(self) -> Split:
        """The same with the usual shares where none was named."""
        if self.test is not None and self.validation is not None:
            return self
        test = 0.2 if self.test is None else self.test
        return replace(self, test=test, validation=0.1 if self.validation is None else self.validation)


@dataclass(frozen=True)
class Exemplar:
    """Where the exemplar set comes from, and how large it is."""

    source: str = "train"  # "train", "validation", or a file
    inside: bool = False  # whether rows drawn from train also stay in it
    per: Literal["cell", "class"] = "cell"
    size: int | None = None  # per cell or class; None: a tenth of train in even parts, at most a fifth of any

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise BadInput(f"{option('exemplar.size')} is {self.size}; give at least 1 per {self.per}.")
        if self.per not in ("cell", "class"):
            raise BadInput(f"Exemplar.per is {self.per!r}; choose cell or class.")


@dataclass(frozen=True)
class Marked:
    """Rows of a given part, with their labels and groups."""

    rows: Tensor  # [N] positions in the given part
    labels: Tensor  # [N]
    groups: Tensor | None  # [N], -1 where not known

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> Marked:
        """Those at these positions, or where the mask is true."""
        groups = None if self.groups is None else self.groups[index]
        return replace(self, rows=self.rows[index], labels=self.labels[index], groups=groups)

    def joined(self, other: Marked) -> Marked:
        """These rows and other ones of the same part, by their numbers."""
        groups = None if self.groups is None or other.groups is None else torch.cat([self.groups, other.groups])
        rows = torch.cat([self.rows, other.rows])
        return Marked(rows, torch.cat([self.labels, other.labels]), groups).take(rows.argsort())

    def strata(self) -> Tensor:
        """One number per cell; rows whose group is not known form cells of their own."""  # [N]
        return self.labels if self.groups is None else self.labels * self._width() + self.groups + 1

    def cells(self, label_names: Sequence[str], group_names: Sequence[str]) -> dict[str, int]:
        """How many rows each cell has, by its name; those whose group is not known are not counted."""
        if self.groups is None:
            values, counts = tally(self.labels)
            return {f"label={label_names[value]}": n for value, n in zip(values.tolist(), counts.tolist(), strict=True)}
        values, counts = tally(self.strata()[self.groups >= 0])
        named = {}
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            label, group = divmod(value, self._width())
            named[f"label={label_names[label]}, group={group_names[group - 1]}"] = count
        return named

    def _width(self) -> int:
        return 1 if self.groups is None or len(self) == 0 else int(self.groups.max()) + 2


@dataclass(frozen=True)
class Parts:
    """Each part's rows, and the given part that they come from."""

    marked: dict[str, Marked]
    origin: dict[str, str]
    notes: tuple[str, ...]


def by_column(given: dict[str, Marked], train: Rows, split: Split) -> tuple[dict[str, Marked], dict[str, str]]:
    """The given parts, with train taken apart by a column that names each row's part; and where each comes from."""
    origin = {name: name for name in given}
    column = split.column
    if column is None:
        return given, origin
    if column not in train.names():
        raise MissingColumn(f"there is no column {column!r} to split by; the columns are {listing(train.names(), 12)}.")
    texts = train.texts(column)
    named = [PART_NAMES.get((texts[row] or "").lower()) for row in given["train"].rows.tolist()]
    if None in named:
        strange = texts[int(given["train"].rows[named.index(None)])]
        raise BadInput(
            f"column {column!r} holds {strange!r}; it must say train, validation, exemplar or test in every row."
        )
    if "train" not in named:
        raise BadInput(f"column {column!r} names no row train; there is nothing to learn from.")
    parts = {name: part for name, part in given.items() if name != "train"}
    for name in dict.fromkeys(named):
        if name in parts:
            raise BadInput(f"the {name} rows are given twice, by column {column!r} and by a file; leave one out.")
        share = getattr(split, str(name), None)
        if share is not None:
            raise BadInput(
                f"column {column!r} says which rows are {name}, so {option(f'split.{name}', f'{share:g}')} would draw "
                "none; leave one "
                "of the two out."
            )
        parts[str(name)] = given["train"].take(torch.tensor([found == name for found in named]))
        origin[str(name)] = "train"
    return parts, origin


def divide(
    given: dict[str, Marked],
    origin: dict[str, str],
    split: Split,
    exemplar: Exemplar,
    seed: int,
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> Parts:
    """Train, validation, exemplar and test from what is given; a part that is given is never drawn."""
    label_names, group_names = names
    for name in ("test", "validation"):
        share = getattr(split, name)
        if name in given and origin[name] == name and isinstance(share, float) and share > 0:
            raise BadInput(
                f"the data has its own {name} rows, so {option(f'split.{name}', f'{share:g}')} would draw none; "
                "leave it out."
            )
    split = split.settled()
    marked, origin = dict(given), dict(origin)
    notes: list[str] = []
    total = len(given["train"])
    for name, parts in (("test", 4), ("validation", 3)):  # so many parts want a row of every cell from here on
        share = getattr(split, name)
        if name in marked or isinstance(share, str) or share == 0.0:
            continue
        # The share is of all rows; what is left after an earlier draw is smaller.
        share = share * total / len(marked["train"])
        sizes = proportional(marked["train"].strata(), share, parts)
        rest, drawn = _cut(marked["train"], sizes, seed, name)
        marked["train"], marked[name], origin[name] = rest, drawn, "train"
        notes.append(f"{name.capitalize()}: {len(drawn):,} rows drawn from train, stratified by cell (seed {seed}).")
    if "exemplar" not in marked:
        _add_exemplar(marked, origin, notes, exemplar, seed, label_names, group_names)
    else:
        _take_exemplar(marked, origin, notes, exemplar)
    for name, part in marked.items():
        if len(part) == 0:
            raise BadInput(f"the {name} part has no rows; give more data or another split.")
    if "test" not in marked:
        raise BadInput(f"there are no test rows; give {option('split.test')} a share above 0 or a file.")
    marked = {name: marked[name] for name in ("train", "validation", "exemplar", "test") if name in marked}
    notes += _gaps(marked, label_names, group_names)
    return Parts(marked, origin, tuple(notes))


def _cut(part: Marked, sizes: dict[int, int], seed: int, purpose: str) -> tuple[Marked, Marked]:
    drawn = by_stratum(part.strata(), sizes, stream(seed, "split", purpose))
    stays = torch.ones(len(part), dtype=torch.bool)
    stays[drawn] = False
    return part.take(stays), part.take(drawn)


def _add_exemplar(
    marked: dict[str, Marked],
    origin: dict[str, str],
    notes: list[str],
    exemplar: Exemplar,
    seed: int,
    label_names: tuple[str, ...],
    group_names: tuple[str, ...],
) -> None:
    source = exemplar.source
    if source not in marked:
        where = option(f"split.{source}")
        raise BadInput(f"the exemplar set is to come from {source}, which has no rows; give {where} a share.")
    pool = marked[source]
    if pool.groups is not None and not bool((pool.groups >= 0).any()):
        raise MissingGroups(
            f"no row of {source} has a group label; take the exemplar set from a part that has them, or from a file."
        )
    known = torch.ones(len(pool), dtype=torch.bool) if pool.groups is None else pool.groups >= 0
    candidates = pool.take(known)
    by_class = exemplar.per == "class" or candidates.groups is None
    strata = candidates.labels if by_class else candidates.strata()
    if source == "validation" and exemplar.size is None:
        sizes = None
        drawn = torch.arange(len(candidates))
    else:
        named = replace(candidates, groups=None) if by_class else candidates
        cells = list(named.cells(label_names, group_names))
        sizes = _sizes(strata, cells, exemplar, may_empty=exemplar.inside or source == "validation")
        drawn = by_stratum(strata, sizes, stream(seed, "split", "exemplar"))
    marked["exemplar"], origin["exemplar"] = candidates.take(drawn), origin[source]
    where = f"from {source}"
    if source == "train" and not exemplar.inside:
        stays = torch.ones(len(pool), dtype=torch.bool)
        stays[known.nonzero().flatten()[drawn]] = False
        marked["train"] = pool.take(stays)
        where = "held out from train"
    elif source == "train":
        where = "from train, where they stay as well"
    how = "all rows with a known group"
    if sizes is not None:
        least, most = min(sizes.values()), max(sizes.values())
        how = f"{least if least == most else f'{least} to {most}'} per {'class' if by_class else 'cell'}"
    notes.append(f"Exemplar set: {len(drawn):,} rows {where}, {how} (seed {seed}).")


def _take_exemplar(marked: dict[str, Marked], origin: dict[str, str], notes: list[str], exemplar: Exemplar) -> None:
    """Exemplars that are given: those whose group is known; rows that a column names may stay in train as well."""
    whole = marked["exemplar"]
    if exemplar.inside and origin["exemplar"] == "train":
        marked["train"] = marked["train"].joined(whole)
        notes.append(f"The {len(whole):,} exemplars that are named by a column stay in train as well.")
    if whole.groups is None or len(whole) == 0 or bool((whole.groups >= 0).all()):
        return
    marked["exemplar"] = whole.take(whole.groups >= 0)
    if len(marked["exemplar"]) == 0:
        raise MissingGroups("no exemplar that is given has a group label; give exemplars that have them.")
    lost = len(whole) - len(marked["exemplar"])
    notes.append(f"Warning: {lost:,} of {len(whole):,} exemplars have no group label and pull for none: left out.")


def _sizes(strata: Tensor, names: Sequence[str], exemplar: Exemplar, may_empty: bool) -> dict[int, int]:
    values, counts = tally(strata)
    if exemplar.size is None:
        even = max(1, round(0.1 * len(strata) / len(values)))
        wanted = torch.minimum(torch.full_like(counts, even), (counts // 5).clamp(min=1))
        wanted = wanted if may_empty else torch.minimum(wanted, counts - 1)
    else:
        wanted = torch.full_like(counts, exemplar.size)
    for want, count, name in zip(wanted.tolist(), counts.tolist(), names, strict=True):
        if want > count or (want == count and not may_empty):
            raise EmptyCell(
                f"the exemplar set needs {want} rows with {name}, and of the {count} there are none would stay in "
                f"train; lower {option('exemplar.size')}, give more rows, or merge the group."
                if want == count
                else f"the exemplar set needs {want} rows with {name}, and there are {count}; lower "
                f"{option('exemplar.size')}."
            )
    return dict(zip(values.tolist(), wanted.tolist(), strict=True))


def _gaps(marked: dict[str, Marked], label_names: tuple[str, ...], group_names: tuple[str, ...]) -> list[str]:
    """Cells of test that the exemplar set lacks: nothing will pull for them."""
    test, exemplar = marked["test"], marked["exemplar"]
    if (test.groups is None) != (exemplar.groups is None):
        return []
    seen = exemplar.cells(label_names, group_names)
    lost = [name for name in test.cells(label_names, group_names) if name not in seen]
    if not lost:
        return []
    return [f"Warning: the exemplar set has no row with {'; '.join(lost[:5])}{' ...' if len(lost) > 5 else ''}."]
