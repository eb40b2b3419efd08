"""Known damage to a training set, seeded and recorded: wrong labels, rare groups, hidden group labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol, get_type_hints

import torch
from torch import Tensor

from fairweight.data._draw import choose
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
        """The class of that name."""
        return _place("label", name, self.label_names)

    def group(self, name: str) -> Tensor:
        """Which rows are of the group of that name."""  # [N] bool
        if self.groups is None:
            raise MissingGroups("this corruption acts on a group, and the data has none; name a group column.")
        return self.groups == _place("group", name, self.group_names)


class Corruption(Protocol):
    """Damage that depends on the marks and the generator alone."""

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks after the damage; what was given stays as it is."""
        ...


@dataclass(frozen=True)
class OneClass:
    """A fraction of all rows, drawn without replacement, get one label; those that have it keep it."""

    label: str
    fraction: float = 0.2

    def __post_init__(self) -> None:
        _check("fraction", self.fraction)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks with one label on the chosen rows."""
        chosen = _some(torch.arange(len(marks.labels)), self.fraction, generator)
        return _relabel(marks, chosen, torch.full_like(chosen, marks.label(self.label)))


@dataclass(frozen=True)
class UniformFlips:
    """A fraction of all rows get another label, each other one as likely."""

    fraction: float = 0.2

    def __post_init__(self) -> None:
        _check("fraction", self.fraction)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks with another label on the chosen rows."""
        chosen = _some(torch.arange(len(marks.labels)), self.fraction, generator)
        return _relabel(marks, chosen, _others(marks, chosen, generator))


@dataclass(frozen=True)
class PairFlips:
    """A fraction of the rows of each class get the label of its partner: the next class, or the one named."""

    fraction: float = 0.2
    pairs: Mapping[str, str] = field(default_factory=dict)  # from one label to another; empty: each to the next

    def __post_init__(self) -> None:
        _check("fraction", self.fraction)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks with the partner's label on the chosen rows of each class."""
        classes = len(marks.label_names)
        to = {marks.label(a): marks.label(b) for a, b in self.pairs.items()}
        to = to or {k: (k + 1) % classes for k in range(classes)}
        new = marks
        for old, partner in sorted(to.items()):
            chosen = _some((marks.labels == old).nonzero().flatten(), self.fraction, generator)
            new = _relabel(new, chosen, torch.full_like(chosen, partner))
        return new


@dataclass(frozen=True)
class GroupFlips:
    """A fraction of each named group's rows get another label; the rest of the groups are left alone."""

    fractions: Mapping[str, float]  # by group name
    label: str | None = None  # flip only rows of this label; None: of any

    def __post_init__(self) -> None:
        for name, fraction in self.fractions.items():
            _check(f"fractions[{name!r}]", fraction)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks with another label on the chosen rows of each group."""
        new = marks
        for name, fraction in sorted(self.fractions.items()):
            member = marks.group(name)
            if self.label is not None:
                member = member & (marks.labels == marks.label(self.label))
            chosen = _some(member.nonzero().flatten(), fraction, generator)
            new = _relabel(new, chosen, _others(marks, chosen, generator))
        return new


@dataclass(frozen=True)
class GroupImbalance:
    """Only a fraction of one group's rows, or of one of its cells, stays in train."""

    group: str
    keep: float = 0.1
    label: str | None = None  # only rows of this label are dropped; None: of any

    def __post_init__(self) -> None:
        _check("keep", self.keep)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks without the dropped rows."""
        member = marks.group(self.group)
        if self.label is not None:
            member = member & (marks.labels == marks.label(self.label))
        dropped = _some(member.nonzero().flatten(), 1.0 - self.keep, generator)
        keep = marks.keep.clone()
        keep[dropped] = False
        return Marks(marks.labels, marks.groups, marks.label_names, marks.group_names, keep)


@dataclass(frozen=True)
class HiddenGroups:
    """A fraction of all rows lose their group label."""

    fraction: float = 1.0

    def __post_init__(self) -> None:
        _check("fraction", self.fraction)

    def __call__(self, marks: Marks, generator: torch.Generator) -> Marks:
        """The marks with the chosen groups not known."""
        if marks.groups is None:
            raise MissingGroups("no group labels to hide: the data has none; name a group column.")
        groups = marks.groups.clone()
        groups[_some(torch.arange(len(groups)), self.fraction, generator)] = -1
        return Marks(marks.labels, groups, marks.label_names, marks.group_names, marks.keep)


KINDS: dict[str, type[Any]] = {
    "one-class": OneClass,
    "uniform-flips": UniformFlips,
    "pair-flips": PairFlips,
    "group-flips": GroupFlips,
    "group-imbalance": GroupImbalance,
    "hidden-groups": HiddenGroups,
}


def parse(text: str) -> Corruption:
    """A corruption from one line, such as "one-class:label=2,fraction=0.2" or "group-flips:Female=0.3,Male=0.1"."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise UnknownName(f"{kind!r} is not a corruption; choose from: {', '.join(KINDS)}.")
    cls = KINDS[kind]
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}
    mapping = next((name for name in known if "Mapping" in str(hints[name])), None)
    arguments: dict[str, Any] = {}
    for entry in filter(None, rest.split(",")):
        name, equals, value = entry.partition("=")
        if not equals or (name not in known and mapping is None):
            raise BadInput(f"{text!r} has no meaning at {entry!r}; write {kind}:{_form(cls)}.")
        if name in known and name != mapping:
            arguments[name] = _number(text, value) if hints[name] is float else value
        elif mapping is not None:
            numeric = "float" in str(hints[mapping])
            arguments.setdefault(mapping, {})[name] = _number(text, value) if numeric else value
    try:
        return cls(**arguments)  # type: ignore[no-any-return]
    except TypeError as error:
        raise BadInput(f"{text!r} leaves something out; write {kind}:{_form(cls)}.") from error


def to_dict(corruption: Corruption) -> dict[str, Any]:
    """Plain values that determine it, for a record."""
    kind = next((name for name, cls in KINDS.items() if type(corruption) is cls), type(corruption).__qualname__)
    return {"kind": kind, **asdict(corruption)}  # type: ignore[call-overload]


def sentence(before: Marks, after: Marks, corruption: Corruption) -> str:
    """What a corruption changed, in words."""
    words = ", ".join(f"{key}={value}" for key, value in to_dict(corruption).items() if key != "kind")
    count = len(before.labels)
    done = []
    if changed := int((before.labels != after.labels).sum()):
        done.append(f"{changed:,} of {count:,} labels are now wrong")
    if dropped := int((before.keep & ~after.keep).sum()):
        done.append(f"{dropped:,} of {count:,} rows were dropped")
    hidden = 0
    if before.groups is not None and after.groups is not None:
        hidden = int(((before.groups >= 0) & (after.groups < 0)).sum())
    if hidden:
        done.append(f"{hidden:,} of {count:,} group labels were hidden")
    return f"Corruption {to_dict(corruption)['kind']} ({words}): {', '.join(done) or 'nothing changed'}."


def _place(what: str, name: str, names: tuple[str, ...]) -> int:
    if str(name) not in names:
        raise UnknownName(f"the corruption names the {what} {name!r}; choose from: {', '.join(names)}.")
    return names.index(str(name))


def _check(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise BadInput(f"{name} is {value}; give a share from 0 to 1.")


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise BadInput(f"{text!r} needs a number where it says {value!r}.") from error


def _form(cls: type[Any]) -> str:
    return ",".join(f"{f.name}=..." for f in fields(cls))


def _some(rows: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """A fraction of the rows, rounded down as in N/5, without replacement."""  # [M]
    size = math.floor(len(rows) * fraction + 1e-9)
    return rows[choose(len(rows), size, generator)]


def _others(marks: Marks, rows: Tensor, generator: torch.Generator) -> Tensor:
    """For each row a label that is not its own, all others as likely."""  # [M]
    classes = len(marks.label_names)
    step = torch.randint(1, classes, (len(rows),), generator=generator)
    return (marks.labels[rows] + step) % classes


def _relabel(marks: Marks, rows: Tensor, labels: Tensor) -> Marks:
    new = marks.labels.clone()
    new[rows] = labels
    return Marks(new, marks.groups, marks.label_names, marks.group_names, marks.keep)
