"""Numbers as people write them: 12.5%, $1,234.00, (0.5) for a negative, 1,234,567, 1.169,63."""

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
_MARKS = "marks:"
_THOUSANDS = {",": "commas", ".": "dots", "_": "blanks", "'": "apostrophes"}
_SPACED = re.compile("(?<=\\d)[ \u00a0\u2009\u202f](?=\\d{3})")


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
    text, form = in_english(text, marks_of(form)), without_marks(form)
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
    mark, marks = _mark(without_marks(form)), marks_of(form)
    said = ["percentages, 12.5% as 12.5"] if mark == "%" else [f"amounts, without {mark}"] if mark else []
    said += ["brackets as a minus sign"] if _BRACKETS in form else []
    said += ["the comma as a decimal point"] if "decimal" in form else []
    said += ["commas as marks of thousands"] if "thousands" in form else []
    if marks:
        said += [f"{marks[0]!r} as the decimal point, {_THOUSANDS[marks[1]]} as marks of thousands"]
    return ", ".join(said)


def marks_of(form: str) -> str:
    """The marks that a form was given for fractions and thousands, such as ",."; "" where it was given none."""
    return next((word.removeprefix(_MARKS) for word in form.split() if word.startswith(_MARKS)), "")


def without_marks(form: str) -> str:
    """The form of such numbers once they are written in English."""
    return " ".join(word for word in form.split() if not word.startswith(_MARKS))


def with_marks(form: str, decimal: str, thousands: str) -> str:
    """A form whose numbers have these marks."""
    return f"{_MARKS}{decimal}{thousands.replace(' ', '_')} {form}".strip()


def in_english(text: str, marks: str) -> str:
    """Write a number with these marks as 1,234.5; "" where another mark stands in it."""
    if not marks:
        return text
    decimal, thousands = marks[0], marks[1]
    if thousands == "_":
        text = _SPACED.sub("_", text)
    if any(other in text for other in ".,'" if other not in marks):
        return ""
    return text.translate({ord(decimal): ".", ord(thousands): ","})


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
