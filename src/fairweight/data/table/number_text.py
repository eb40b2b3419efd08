"""Numbers as people write them: 12.5%, $1,234.00, (0.5) for a negative, 1,234,567."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from fairweight.data.texts import to_number

_NUMBER = re.compile(r"([^\d.]*)(\d[\d.,]*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(\D*)", re.ASCII)
_PLAIN = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")
_DECIMAL = re.compile(r"\d+,\d+")
_DOTTED = re.compile(r"\d{1,3}(\.\d{3})+")  # of an amount, more likely thousands than a fraction
_BRACKETS = "()"


class _Entry(NamedTuple):
    mark: str  # "%", a currency sign or nothing
    sign: str  # "+", "-", "(" or nothing
    digits: str


def written_form(texts: Iterable[str]) -> str:
    """Describe how a column writes its numbers, such as "$ () thousands"; "" where some entry does not fit.

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
    bracketed = any(entry.sign == "(" for entry in entries)
    grouped = commas == "thousands" and any(not _DECIMAL.fullmatch(e.digits) for e in entries if "," in e.digits)
    if not mark and not bracketed and not grouped:
        return ""
    return " ".join(word for word in (mark, _BRACKETS if bracketed else "", commas) if word)


def read_written(text: str, form: str) -> float:
    """Read a number of this form, NaN where it is none; an amount may lack its sign."""
    entry, mark = _apart(text), _mark(form)
    if entry is None or (entry.mark != mark and (entry.mark or mark == "%")):
        return float("nan")
    decimal = "decimal" in form
    if "," in entry.digits and not (_DECIMAL if decimal else _GROUPED).fullmatch(entry.digits):
        return float("nan")
    number = to_number(entry.digits.replace(",", "." if decimal else ""))
    return float("nan") if number is None else -number if entry.sign in ("-", "(") else number


def in_words(form: str) -> str:
    """Say in words how numbers of this form are read."""
    mark = _mark(form)
    said = ["percentages, 12.5% as 12.5"] if mark == "%" else [f"amounts, without {mark}"] if mark else []
    said += ["brackets as a minus sign"] if _BRACKETS in form else []
    said += ["the comma as a decimal point"] if "decimal" in form else []
    said += ["commas as marks of thousands"] if "thousands" in form else []
    return ", ".join(said)


def _mark(form: str) -> str:
    return next((word for word in form.split() if word not in (_BRACKETS, "decimal", "thousands")), "")


def _apart(text: str) -> _Entry | None:
    """Take a number apart; None where there is more than one sign or mark, or what is left is no number."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or not any(shape.fullmatch(found[2]) for shape in (_PLAIN, _GROUPED, _DECIMAL)):
        return None
    before, after = ("".join(found[side].split()) for side in (1, 3))
    sign = next((letter for letter in before if letter in "+-("), "")
    before = before.replace(sign, "", 1)
    if sign == "(":
        if not after.endswith(")"):
            return None
        after = after[:-1]
    marks = before + after
    if marks and not (len(marks) == 1 and (after == "%" or unicodedata.category(marks) == "Sc")):
        return None
    return _Entry(marks, sign, found[2])


def _commas(digits: list[str], amounts: bool) -> str | None:
    """Tell what commas are: "decimal", "thousands" or "" for none; None where the numbers do not agree."""
    with_comma = [text for text in digits if "," in text]
    if not with_comma:
        return None if amounts and any(_DOTTED.fullmatch(text) for text in digits) else ""
    if all(_GROUPED.fullmatch(text) for text in with_comma):
        return "thousands"
    return "decimal" if all(_DECIMAL.fullmatch(text) for text in with_comma) else None
