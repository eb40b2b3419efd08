"""Known damage to a training set, seeded and recorded: wrong labels, rare groups, hidden group labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias, get_type_hints

import torch
from torch import Tensor

from fairweight.data.draw import choose, stream
from fairweight.data.parts import Marked, Names
from fairweight.errors import BadInput, MissingGroups, UnknownName


@dataclass(frozen=True)
class Marks:
    """What a corruption may change: labels, groups, and which rows stay."""

    labels: Tensor  # [N]
    groups: Tensor | None  # [N], -1 where not known
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]
    keep: Tensor  # [N] bool

    def label(self, name: str) -> int:
        return _code("label", name, self.label_names)

    def members(self, group: str, label: str | None) -> Tensor:  # [M]
        if self.groups is None:
            raise MissingGroups("this corruption acts on a group, and the data has none; name a group column.")
        in_group = self.groups == _code("group", group, self.group_names)
        return (in_group if label is None else in_group & (self.labels == self.label(label))).nonzero().flatten()

    def relabelled(self, rows: Tensor, labels: Tensor | int) -> Marks:
        new = self.labels.clone()
        new[rows] = labels
        return replace(self, labels=new)

    def flipped(self, rows: Tensor, generator: torch.Generator) -> Marks:
        """Give each of these rows a label that is not its own, all others as likely."""
        step = torch.randint(1, len(self.label_names), (len(rows),), generator=generator)
        return self.relabelled(rows, (self.labels[rows] + step) % len(self.label_names))


# Gives damaged marks, by the marks and the generator alone; the marks that it was given stay as they are.
Corruption: TypeAlias = Callable[[Marks, torch.Generator], Marks]


class _Shares:
    """Refuses shares that are not from 0 to 1."""

    def __post_init__(self) -> None:
        shares = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        shares |= {f"fractions[{name!r}]": share for name, share in vars(self).get("fractions", {}).items()}
        for name, share in shares.items():
            if not 0.0 <= share <= 1.0:
                raise BadInput(f"{name} is {share}; give a share from 0 to 1.")


@dataclass(frozen=True)
class OneClass(_Shares):
    """A fraction of all rows, drawn without replacement, get one label; those that have it keep it."""

    label: str
    fraction: float = 0.2

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        return marks.relabelled(_draw_fraction(len(marks.labels), self.fraction, generator), marks.label(self.label))


@dataclass(frozen=True)
class UniformFlips(_Shares):
    """A fraction of all rows get another label, each other one as likely."""

    fraction: float = 0.2

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        return marks.flipped(_draw_fraction(len(marks.labels), self.fraction, generator), generator)


@dataclass(frozen=True)
class PairFlips(_Shares):
    """A fraction of the rows of each class get the label of its partner: the next class, or the one named."""

    fraction: float = 0.2
    pairs: Mapping[str, str] = field(default_factory=dict)  # from one label to another; empty: each to the next

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        classes = len(marks.label_names)
        to = {marks.label(a): marks.label(b) for a, b in self.pairs.items()}
        new = marks
        for old, partner in sorted((to or {k: (k + 1) % classes for k in range(classes)}).items()):
            rows = (marks.labels == old).nonzero().flatten()
            new = new.relabelled(rows[_draw_fraction(len(rows), self.fraction, generator)], partner)
        return new


@dataclass(frozen=True)
class GroupFlips(_Shares):
    """A fraction of each named group's rows get another label; the rest of the groups are left alone."""

    fractions: Mapping[str, float]  # by group name
    label: str | None = None  # flip only rows of this label; None: of any

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        for name, fraction in sorted(self.fractions.items()):  # groups share no row: the order of flips is all one
            rows = marks.members(name, self.label)
            marks = marks.flipped(rows[_draw_fraction(len(rows), fraction, generator)], generator)
        return marks


@dataclass(frozen=True)
class GroupImbalance(_Shares):
    """Only a fraction of one group's rows, or of one of its cells, stays in train."""

    group: str
    keep: float = 0.1
    label: str | None = None  # only rows of this label are dropped; None: of any

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        rows = marks.members(self.group, self.label)
        keep = marks.keep.clone()
        keep[rows[_draw_fraction(len(rows), 1.0 - self.keep, generator)]] = False
        return replace(marks, keep=keep)


@dataclass(frozen=True)
class HiddenGroups(_Shares):
    """A fraction of all rows lose their group label."""

    fraction: float = 1.0

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        if marks.groups is None:
            raise MissingGroups("no group labels to hide: the data has none; name a group column.")
        groups = marks.groups.clone()
        groups[_draw_fraction(len(groups), self.fraction, generator)] = -1
        return replace(marks, groups=groups)


KINDS: dict[str, type[Any]] = {
    "one-class": OneClass, "uniform-flips": UniformFlips, "pair-flips": PairFlips, "group-flips": GroupFlips,
    "group-imbalance": GroupImbalance, "hidden-groups": HiddenGroups,
}  # fmt: skip


def parse(text: str) -> Corruption:
    """Read a corruption from a line, such as "one-class:label=2,fraction=0.2" or "group-flips:Female=0.3,Male=0.1"."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise UnknownName(f"{kind!r} is not a corruption; choose from: {', '.join(KINDS)}.")
    hints = get_type_hints(KINDS[kind])
    usage = f"{kind}:{','.join(f'{name}=...' for name in hints)}"
    mapping = next((name for name, hint in hints.items() if "Mapping" in str(hint)), None)
    arguments: dict[str, Any] = {}
    for entry in filter(None, rest.split(",")):
        name, equals, value = entry.partition("=")
        field_name = name if name in hints and name != mapping else mapping
        if not equals or field_name is None:
            raise BadInput(f"{text!r} has no meaning at {entry!r}; write {usage}.")
        try:
            parsed = float(value) if "float" in str(hints[field_name]) else value
        except ValueError as error:
            raise BadInput(f"{text!r} needs a number where it says {value!r}.") from error
        if field_name == mapping:
            arguments.setdefault(field_name, {})[name] = parsed
        else:
            arguments[name] = parsed
    try:
        return KINDS[kind](**arguments)  # type: ignore[no-any-return]
    except TypeError as error:
        raise BadInput(f"{text!r} leaves something out; write {usage}.") from error


def to_dict(corruption: Corruption) -> dict[str, Any]:
    """Give the plain values that determine it, for a record."""
    kind = next((name for name, cls in KINDS.items() if type(corruption) is cls), type(corruption).__qualname__)
    return {"kind": kind, **asdict(corruption)}  # type: ignore[call-overload]


def sentence(before: Marks, after: Marks, corruption: Corruption) -> str:
    """Say what a corruption changed."""
    values = to_dict(corruption)
    name = values.pop("kind")
    counts = {
        "labels are now wrong": (before.labels != after.labels).sum(),
        "rows were dropped": (before.keep & ~after.keep).sum(),
    }
    if before.groups is not None and after.groups is not None:
        counts["group labels were hidden"] = ((before.groups >= 0) & (after.groups < 0)).sum()
    changes = [f"{int(count):,} of {len(before.labels):,} {what}" for what, count in counts.items() if count > 0]
    settings = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"Corruption {name} ({settings}): {', '.join(changes) or 'nothing changed'}."


def corrupt_parts(
    parts: Mapping[str, Marked],
    corruptions: Sequence[Corruption],
    chosen: Sequence[str],
    names: Names,
    seed: int,
    notes: list[str],
) -> tuple[dict[str, Marked], Tensor | None]:
    """Damage the chosen parts together; also gives train's true labels, where anything was done."""
    damaged = dict(parts)
    if not corruptions:
        return damaged, None
    if "train" not in chosen:
        raise BadInput(f"corrupt_parts is {chosen}; it names train, and validation or exemplar besides.")
    chosen = [name for name in ("train", "validation", "exemplar") if name in chosen]
    if foreign := [name for name in chosen if name not in parts or parts[name].origin != "train"]:
        raise BadInput(f"the {foreign[0]} rows do not come from train, which alone is corrupted; leave them out.")
    # One pool, each source row once, so that exemplars which stay in train have the same label in both.
    pool = parts["train"]
    for part in (parts[name] for name in chosen[1:]):
        pool = pool.joined(part.take(~torch.isin(part.rows, pool.rows)))
    marks = Marks(pool.labels, pool.groups, *names, torch.ones(len(pool), dtype=torch.bool))
    for number, corruption in enumerate(corruptions):
        before, marks = marks, corruption(marks, stream(seed, "corrupt", str(number)))
        notes.append(sentence(before, marks, corruption))
    for name in chosen:
        place = torch.searchsorted(pool.rows, parts[name].rows)
        kept = marks.keep[place]
        place = place[kept]
        if len(place) == 0:
            raise BadInput(f"the corruptions leave no row of {name}; keep more.")
        groups = None if marks.groups is None else marks.groups[place]
        damaged[name] = replace(parts[name].take(kept), labels=marks.labels[place], groups=groups)
    if len(chosen) > 1:
        notes.append(f"The corruptions acted on {' and '.join(chosen)} together.")
    return damaged, pool.labels[torch.searchsorted(pool.rows, damaged["train"].rows)]


def _code(what: str, name: str, names: tuple[str, ...]) -> int:
    if str(name) not in names:
        raise UnknownName(f"the corruption names the {what} {name!r}; choose from: {', '.join(names)}.")
    return names.index(str(name))


def _draw_fraction(count: int, fraction: float, generator: torch.Generator) -> Tensor:
    """Draw a fraction of so many rows, rounded down as in N/5, without replacement."""  # [M]
    return choose(count, math.floor(count * fraction + 1e-9), generator)
