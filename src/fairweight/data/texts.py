"""Columns as text, one entry per row and None where there is none: what labels and groups are read from."""

from __future__ import annotations

import difflib
import math
import operator
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fairweight.errors import BadInput

Texts: TypeAlias = "list[str | None]"

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}


@dataclass(frozen=True)
class Threshold:
    """A yes-or-no question to a numeric column, such as age>=30."""

    column: str
    sign: str
    value: float

    def names(self) -> tuple[str, str]:
        return f"{self.column}{_OPPOSITE[self.sign]}{self.value:g}", f"{self.column}{self.sign}{self.value:g}"

    def answer(self, texts: Texts) -> Texts:
        no, yes = self.names()
        compare = _COMPARE[self.sign]
        answers: dict[str | None, str | None] = {None: None}
        for text in dict.fromkeys(text for text in texts if text is not None):
            number = to_number(text)
            if number is None:
                raise BadInput(f"{yes!r} compares numbers, and column {self.column!r} holds {text!r}; name it without.")
            answers[text] = yes if compare(number, self.value) else no
        return [answers[text] for text in texts]


def threshold(text: str) -> Threshold | None:
    """Read a threshold such as age>=30; None where the text is none."""
    match = re.fullmatch(r"(.+?)\s*(>=|<=|>|<)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)", text.strip())
    if match is None:
        return None
    value = to_number(match[3])
    return None if value is None else Threshold(match[1], match[2], value)


def to_number(text: str | None) -> float | None:
    """Read the finite number that a text spells; None where it spells none."""
    if text is None or "_" in text:  # Python reads 12_1 as 121; nobody else does
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def all_numbers(texts: Iterable[str | None]) -> bool:
    """True if every entry that is there spells a number."""
    return all(to_number(text) is not None for text in texts if text is not None)


def canonical(text: str) -> str:
    """Spell a number in one way: 1, 1.0 and 01 are the same."""
    number = to_number(text)
    if number is None:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def in_order(texts: Iterable[str]) -> list[str]:
    """Sort as numbers where all are numbers, otherwise as text."""
    values = list(texts)
    return sorted(values, key=float) if all_numbers(values) else sorted(values)


def unify(texts: Texts) -> Texts:
    """Spell each number in one way, where all entries are numbers."""
    distinct = set(texts)
    if not all_numbers(distinct):
        return texts
    spelling = {text: None if text is None else canonical(text) for text in distinct}
    return [spelling[text] for text in texts]


def case_variants(names: Iterable[str], what: str) -> list[str]:
    """Warn where names differ by capitals, blanks or their bytes alone: one value that was typed in two ways."""
    by_folded: dict[str, list[str]] = {}
    for name in names:
        by_folded.setdefault("".join(unicodedata.normalize("NFKC", name).casefold().split()), []).append(name)
    pairs = "; ".join([listing(same) for same in by_folded.values() if len(same) > 1][:3])
    how = "look the same or differ by capitals or blanks alone"
    return [f"Warning: {what} that {how} count as different: {pairs}."] if pairs else []


def columns_are(asked: str, names: Sequence[str]) -> str:
    """Say which columns there are instead of the one that was asked for."""
    close = difflib.get_close_matches(asked.lower(), [name.lower() for name in names], n=1)
    meant = next((name for name in names if close and name.lower() == close[0]), None)
    hint = ""
    if set(names) == {"label", "file"}:  # a folder with a subfolder per class
        hint = "; put a metadata.csv with file_name and your columns into the folder to have more"
    return f"the columns are {listing(names, 12)}" + (f" (did you mean {meant!r}?)" if meant else hint)


def listing(values: Iterable[str], most: int = 6) -> str:
    """List the first few values, and how many more there are."""
    names = list(values)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(value) for value in names[:most]) + rest
