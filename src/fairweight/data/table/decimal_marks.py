"""Which mark stands before a number's fraction: settled for a whole file, because a column alone may not tell.

1.169 is a thousand and more where the file writes 12,5, and a little over one where it writes 12.5.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from fairweight.data.options import TableOptions
from fairweight.data.table.values import Seen
from fairweight.errors import BadInput, option

Habit: TypeAlias = Literal["comma", "point", "dotted", "grouped", ""]
_DIGITS = re.compile(r"[^\d.,]*(\d[\d.,]*|[.,]\d+)\D*", re.ASCII)
_WHOLE = re.compile(r"\d+")
# 12,5 and 1.169,63 and 1.234.567: the comma stands before the fraction; so, mutatis mutandis, for the point.
_CLEAR = {
    "comma": re.compile(r"\d*,(?!\d{3}$)\d+|(0\d*|\d{4,}),\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}"),
    "point": re.compile(r"\d*\.(?!\d{3}$)\d*|(0\d*|\d{4,})?\.\d+|\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,}"),
}
_DOTTED, _GROUPED = re.compile(r"\d{1,3}\.\d{3}"), re.compile(r"\d{1,3},\d{3}")
# 1 169,63 and 1'169.63: such a mark can only part thousands, and what stands before two digits is the fraction's.
_PARTED = re.compile(
    "[^\\d]*[1-9]\\d{0,2}(?:(?P<mark>[ \u00a0\u2009\u202f'])\\d{3})+(?:(?P<decimal>[.,])\\d+)?\\D*", re.ASCII
)
_MOST = 0.95  # of the distinct entries are numbers
_OTHER = {",": ".", ".": ","}


def settle_marks(train: Mapping[str, Seen], options: TableOptions, exclude: Collection[str]) -> None:
    """Tell each column its marks: those that were given, or those that the file shows; asked for where it may be two.

    A column that tells by itself, and all columns of a file without a decimal comma, are read as before.
    """
    named = {name: seen for name, seen in train.items() if seen.values.dtype.kind not in "biufcmM"}
    if options.decimal is not None or options.thousands is not None:
        decimal = options.decimal or _OTHER[options.thousands or "."]
        thousands = options.thousands or _OTHER[decimal]
        for seen in named.values():
            seen.marks = decimal + thousands.replace(" ", "_")
        return
    for seen in named.values():
        seen.marks = _parted(seen.texts)
    apart = options.delimiter == ";"  # as spreadsheets write where the comma is in numbers
    if not apart and not any(_tells(seen.texts) for seen in named.values()):
        return
    habits = {name: _habit(seen.texts, name in options.numeric) for name, seen in named.items() if not seen.marks}
    habits = {name: habit for name, habit in habits.items() if habit and name not in exclude}
    habits |= {name: "comma" for name, seen in named.items() if seen.marks[:1] == ","}
    comma = next((name for name, habit in habits.items() if habit == "comma"), None)
    point = next((name for name, habit in habits.items() if habit == "point"), None)
    for name, habit in habits.items():
        used = name not in (*options.drop, *options.categorical)
        if used and habit in ("dotted", "grouped") and (comma and point if comma else apart and not point):
            raise _ambiguous(name, habit, named[name].texts, comma, point)
        if (
            comma
            and not named[name].marks
            and (habit in ("dotted", "grouped") or (habit == "comma" and _any(".", named[name].texts)))
        ):
            named[name].marks = ",."


def _parted(texts: list[str]) -> str:
    """The marks of a column that parts thousands by blanks or apostrophes; "" for any other."""
    if not any(_PARTED.fullmatch(text.strip()) for text in texts[:1000]):
        return ""
    marks, decimals, strange = set(), set(), 0
    for text in texts:
        if found := _PARTED.fullmatch(text.strip()):
            marks.add("'" if found["mark"] == "'" else "_")
            decimals.add(found["decimal"])
        elif digits := _DIGITS.fullmatch(text.strip()):
            decimals.add(next((mark for mark in ".," if mark in digits[1]), None))
            strange += digits[1].count(",") + digits[1].count(".") > 1
        else:
            strange += 1
    decimals.discard(None)
    if len(marks) != 1 or len(decimals) > 1 or strange > (1 - _MOST) * len(texts):
        return ""
    return (decimals.pop() if decimals else ".") + marks.pop()


def _tells(texts: list[str]) -> bool:
    """True if some entry has a comma, or two points: without any, points stand before fractions."""
    return any("," in text or text.count(".") > 1 for text in texts)


def _any(mark: str, texts: list[str]) -> bool:
    return any(mark in text for text in texts)


def _habit(texts: list[str], forced: bool) -> Habit:
    """How a column writes fractions and thousands; "" where it does not, or in more than one way."""
    found: set[Habit] = set()
    strange = 0
    for text in texts:
        digits = _DIGITS.fullmatch(text.strip())
        if digits is None:
            strange += 1
        elif _WHOLE.fullmatch(digits[1]) is None:
            kind = _kind(digits[1])
            strange += not kind
            found |= {kind} if kind else set()
    if strange > (1 - _MOST) * len(texts) and not forced:
        return ""
    clear = found & {"comma", "point"}
    if len(clear) == 1:
        return clear.pop()
    return found.pop() if len(found) == 1 else ""


def _kind(digits: str) -> Habit:
    if _DOTTED.fullmatch(digits) and not digits.startswith("0"):
        return "dotted"
    if _GROUPED.fullmatch(digits) and not digits.startswith("0"):
        return "grouped"
    ways: list[Habit] = ["comma", "point"]
    return next((way for way in ways if _CLEAR[way].fullmatch(digits)), "")


def _ambiguous(name: str, habit: Habit, texts: list[str], comma: str | None, point: str | None) -> BadInput:
    mark = "." if habit == "dotted" else ","
    example = next(text for text in texts if mark in text).strip()
    why = f" (column {comma!r} has a decimal comma, column {point!r} a decimal point)" if comma and point else ""
    how = f"say which mark stands before a fraction with {option('table.decimal')}"
    return BadInput(f"column {name!r} holds {example!r}, which may be thousands or a fraction{why}; {how}.")
