"""Numbers as people write them: 12.5%, $1,234.00, (0.5) for a negative, 1,234,567."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from fairweight.data._texts import to_number

_PLAIN = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")
_DECIMAL = re.compile(r"\d+,\d+")
_DOTTED = re.compile(r"\d{1,3}(\.\d{3})+")  # of an amount, more likely thousands than a fraction
_BRACKETS = "()"


@dataclass(frozen=True)
class _Entry:
    """One number taken apart."""

    mark: str  # "%", a currency sign or nothing
    negative: bool
    bracketed: bool
    digits: str  # without sign, mark and brackets


def written_form(texts: Iterable[str]) -> str:
    """How a column writes its numbers, in words such as "$ () thousands"; "" where some entry does not fit.

    A column of plain numbers, or of a comma in each number at most, has no form here.
    """
    entries = []
    for text in texts:
        entry = _apart(text)
        if entry is None:
            return ""
        entries.append(entry)
    marks = {entry.mark for entry in entries}
    commas = _commas([entry.digits for entry in entries], amounts=marks.isdisjoint({"", "%"}))
    if len(marks) != 1 or commas is None:
        return ""
    mark = marks.pop()
    bracketed = any(entry.bracketed for entry in entries)
    grouped = commas == "thousands" and any(not _DECIMAL.fullmatch(e.digits) for e in entries if "," in e.digits)
    if not mark and not bracketed and not grouped:
        return ""
    return " ".join(word for word in (mark, _BRACKETS if bracketed else "", commas) if word)


def read_written(text: str, form: str) -> float:
    """The number that a text of this form stands for, NaN where it is none; an amount may lack its sign."""
    entry, words = _apart(text), form.split()
    mark = next((word for word in words if word not in (_BRACKETS, "decimal", "thousands")), "")
    if entry is None or (entry.mark != mark and (entry.mark or mark == "%")):
        return float("nan")
    commas = "decimal" if "decimal" in words else "thousands"
    if "," in entry.digits and not (_DECIMAL if commas == "decimal" else _GROUPED).fullmatch(entry.digits):
        return float("nan")
    number = to_number(entry.digits.replace(",", "." if commas == "decimal" else ""))
    return float("nan") if number is None else -number if entry.negative else number


def in_words(form: str) -> str:
    """The form for a note."""
    words = form.split()
    mark = next((word for word in words if word not in (_BRACKETS, "decimal", "thousands")), "")
    said = ["percentages, 12.5% as 12.5"] if mark == "%" else [f"amounts, without {mark}"] if mark else []
    said += ["brackets as a minus sign"] if _BRACKETS in words else []
    said += ["the comma as a decimal point"] if "decimal" in words else []
    said += ["commas as marks of thousands"] if "thousands" in words else []
    return ", ".join(said)


def _apart(text: str) -> _Entry | None:
    """The parts of a number; None where there is more than one sign or mark, or what is left is no number."""
    rest, sign, mark = text.strip(), "", ""
    while rest and rest[0] not in "0123456789.":
        first = rest[0]
        if first in "+-" and not sign:
            sign, rest = first, rest[1:].lstrip()
        elif first == "(" and rest[-1] == ")" and not sign:
            sign, rest = first, rest[1:-1].strip()
        elif _is_currency(first) and not mark:
            mark, rest = first, rest[1:].lstrip()
        else:
            return None
    if rest and not mark and (rest[-1] == "%" or _is_currency(rest[-1])):
        mark, rest = rest[-1], rest[:-1].rstrip()
    if not any(shape.fullmatch(rest) for shape in (_PLAIN, _GROUPED, _DECIMAL)):
        return None
    return _Entry(mark, sign in ("-", "("), sign == "(", rest)


def _is_currency(letter: str) -> bool:
    return unicodedata.category(letter) == "Sc"


def _commas(digits: list[str], amounts: bool) -> str | None:
    """What commas are in these numbers: "decimal", "thousands" or "" for none; None where they do not agree."""
    with_comma = [text for text in digits if "," in text]
    if not with_comma:
        return None if amounts and any(_DOTTED.fullmatch(text) for text in digits) else ""
    if all(_GROUPED.fullmatch(text) for text in with_comma):
        return "thousands"
    return "decimal" if all(_DECIMAL.fullmatch(text) for text in with_comma) else None
