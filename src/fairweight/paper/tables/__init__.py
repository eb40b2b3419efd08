"""The published tables, each row a value that determines its run.

One file per table, one public class each, found by its file name. A table writes `rows`: for its size and options,
what is run for each row (a Spec for every seed) and which printed row stands beside it.

FORML stands in three rows: `forml` as Algorithm 1 prints it, `forml-reverse` with the reverse look-ahead of the
appendix, `forml-default` as the product trained it in 0.1. Controls show what else could explain a gain. Extra rows run
only when they are named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from fairweight.errors import BadInput, UnknownName
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import ACCURACY, MAX_FNR, TPRD, Number


@dataclass(frozen=True)
class Option:
    """A choice that the paper leaves open, with its default."""

    default: str
    about: str
    choices: Sequence[str] = ()  # empty: any number


@dataclass(frozen=True)
class Size:
    """How much of the paper's protocol is run."""

    name: Literal["quick", "short", "paper"]
    about: str  # one sentence, for the output
    seeds: int
    epochs: int
    limit: int | None = None  # rows of each part; None: all
    network: Mapping[str, Any] = field(default_factory=dict)  # what differs from the table's own


@dataclass(frozen=True)
class Moved:
    """A control without a training: a finished row whose decisions are moved.

    how "rate": the threshold is moved until as many are predicted positive as by the row `like`; "class-bias": a bias
    per class is fitted on the exemplar set to even out the recalls, and added at a fraction of its strength.
    """

    how: Literal["rate", "class-bias"]
    of: str  # the row whose logits are moved
    like: str | None = None
    fraction: float | None = 1.0  # of the bias; None: the most even one that costs the exemplars at most BUDGET

    @property
    def needs(self) -> tuple[str, ...]:
        """The rows that it is made from."""
        return (self.of,) if self.like is None else (self.of, self.like)


@dataclass(frozen=True)
class Row:
    """One row: what is run for it, and the printed row beside it."""

    key: str  # as --rows takes it
    title: str
    spec: Spec | None = None  # for seed 0; other seeds change nothing else
    printed: str | None = None  # as in published.toml; None: the paper has no such row
    kind: Literal["paper", "forml", "control", "extra"] = "paper"
    moved: Moved | None = None
    against: tuple[str, ...] = ("uniform",)  # the rows that it is compared with seed by seed

    @property
    def described(self) -> dict[str, Any]:
        """What a record holds of it beside its numbers."""
        moved = None if self.moved is None else vars(self.moved)
        names = {"title": self.title, "kind": self.kind, "printed_row": self.printed, "against": list(self.against)}
        return {"key": self.key, **names, "moved": moved}

    def spec_for(self, seed: int) -> Spec:
        """The run of this row with this seed; what is chosen at random for it follows the seed too."""
        assert self.spec is not None
        parts = {name: _reseeded(getattr(self.spec, name), seed) for name in ("rows", "weights", "start")}
        return self.spec.with_(seed=seed, **parts)


def _reseeded(rule: Any, seed: int) -> Any:
    """Row choices for another seed: random draws, and the runs that are asked."""
    if isinstance(rule, list):
        return [_reseeded(value, seed) for value in rule]
    if not isinstance(rule, Mapping):
        return rule
    new: dict[str, Any] = {key: seed if key == "random" else _reseeded(value, seed) for key, value in rule.items()}
    if "runs" in new:  # the k-th run asked has a seed of its own, so that no two seeds of the row share one
        new["runs"] = [{**values, "seed": seed * len(new["runs"]) + k} for k, values in enumerate(new["runs"])]
    return new


@cache
def _protocols() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).parents[1].joinpath("protocol.toml").read_text(encoding="utf-8"))


class Table:
    """A published table, or one of ours beside them, at a size and with the chosen options, which fix its rows."""

    protocol: ClassVar[str]  # its entry in protocol.toml
    without: ClassVar[tuple[str, ...]] = ()  # options of the entry that change nothing here
    printed: ClassVar[bool] = True  # whether the paper has it
    explained: ClassVar[str] = ""  # why its numbers are not the printed ones, as far as a study of its own could tell
    numbers: ClassVar[tuple[Number, ...]] = (TPRD, MAX_FNR, ACCURACY)

    def __init__(
        self, size: str = "paper", options: Mapping[str, str] | None = None, epochs: int | None = None
    ) -> None:
        entry = _protocols()[self.protocol]
        self.why_not_run: str = entry["why_not_run"]  # a sentence: what it takes; of a table of ours, what it is
        sizes = {name: Size(name, **values) for name, values in entry["sizes"].items()}
        if size not in sizes:
            raise UnknownName(f"{size!r} is no size; choose from: {', '.join(sizes)}.")
        self.size = sizes[size]
        if epochs is not None and epochs != self.size.epochs:
            about = f"{self.size.about} Trained for {epochs} epochs instead."
            self.size = replace(self.size, epochs=epochs, about=about)
        self.whole = self.size == sizes["paper"]  # nothing of the protocol is shortened
        self.quick = size == "quick"
        self.known = {name: Option(**o) for name, o in entry["options"].items() if name not in self.without}
        self.options = {name: option.default for name, option in self.known.items()}
        for name, value in (options or {}).items():
            if name not in self.known:
                raise UnknownName(f"this table has no option {name!r}; it has: {', '.join(self.known) or 'none'}.")
            if (allowed := self.known[name].choices) and value not in allowed:
                raise UnknownName(f"the option {name} is {value!r}; choose from: {', '.join(allowed)}.")
            self.options[name] = value

    def rows(self) -> tuple[Row, ...]:
        """Every row, extra ones last."""
        raise NotImplementedError

    @property
    def remarks(self) -> list[str]:
        """How it differs from the paper."""
        return list(_protocols()[self.protocol]["remarks"])

    def number(self, option: str) -> float:
        try:
            return float(self.options[option])
        except ValueError:
            raise BadInput(f"the option {option} is {self.options[option]!r}; give a number.") from None


def pick(rows: Sequence[Row], keys: Sequence[str] | None) -> tuple[Row, ...]:
    """The rows of these names; None: all but the extra ones. A control brings the rows that it is made from."""
    by_key = {row.key: row for row in rows}
    names = [row.key for row in rows if row.kind != "extra"] if keys is None else list(keys)
    if names == ["all"]:
        names = list(by_key)
    for name in names:
        if name not in by_key:
            raise UnknownName(f"{name!r} is no row of this table; choose from: all, {', '.join(by_key)}.")
        moved = by_key[name].moved
        names += [other for other in (moved.needs if moved else ()) if other not in names]
    return tuple(row for row in rows if row.key in names)
