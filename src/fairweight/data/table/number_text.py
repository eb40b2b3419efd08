"""Numbers as people write them: 12.5%, CHF 1'169.63, (0.5) for a negative, 12,34,567.50, 1.169,63.

A way of writing is a mark before the fraction and one between groups of three digits: ".,", ",.", "._" (blanks), ".'".
In "lakh" groups of two stand before the last three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_BLANKS = " \u00a0\u2009\u202f"
_CODES = "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|SGD|THB|TRY|USD|ZAR"
_MONEY = rf"[A-Z]{{0,2}}\$|[¢£¤¥\u20a0-\u20cf]|{_CODES}|(?:Fr|Rs|kr)\.?|zł|Kč|Ft"
# Blanks and digits are taken whole (*+): a cell of many is refused as quickly as one of few.
_ENTRY = re.compile(
    rf"\s*+(?P<before>[-+(]?)\s*+(?P<front>{_MONEY})?[\s{_BLANKS}]*+(?P<sign>[-+(]?)\s*+"
    rf"(?P<digits>(?:\d[\d.,'\u2019{_BLANKS}]*+|[.,]\d++)(?:[eE][-+]?\d++)?)\s*+(?P<back>%|{_MONEY})?\s*+"
    r"(?P<close>\)?)\s*+",
    re.ASCII,
)
_ONE_MARK = str.maketrans({**dict.fromkeys(_BLANKS, "_"), "\u2019": "'"})
_ODD = re.compile(r"[^\d.eE+\-\s]|\d[^\S\n]+\d|\.\d*\.")  # what no plain number has
_NEARLY_ALL = 0.95  # of the distinct entries are numbers
_GIVEN = "marks:"
_THOUSANDS = {".": "dots", "_": "blanks", "'": "apostrophes"}


def _shape(decimal: str, groups: str) -> re.Pattern[str]:
    plain = rf"(?:\d+(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d+)?"
    return re.compile(rf"{plain}|{groups}(?:{decimal}\d*)?", re.ASCII)


_SHAPES = {
    way: _shape(re.escape(way[0]), rf"[1-9]\d{{0,2}}(?:{re.escape(way[1])}\d{{3}})+")
    for way in (".,", ",.", "._", ",_", ".'", ",'")
}
_SHAPES["lakh"] = _shape(r"\.", r"[1-9]\d?(?:,\d{2})*,\d{3}")


class _Entry(NamedTuple):
    mark: str  # "%", a currency or nothing
    sign: str  # "+", "-", "(" or nothing
    digits: str  # with every blank as "_"


def ways_of(texts: Sequence[str], forced: bool = False) -> list[str]:
    """List the ways in which nearly all entries are numbers, the usual one first; none where none has a mark.

    forced: entries that are no numbers do not count.
    """
    if is_plain(texts):
        marked = [text for text in texts if "." in text]
        dotted = marked and all(_SHAPES[",."].fullmatch(text.strip().lstrip("+-")) for text in marked)
        return [".,", ",."] if dotted else [".,"] if marked else []
    if not forced and not any(_ENTRY.fullmatch(text) for text in texts[:200]):
        return []
    digits = [entry.digits for text in texts if (entry := _split_entry(text))]
    marks = {mark for mark in ".,_'" if any(mark in text for text in digits)}
    if not marks:
        return []
    candidates = [way for way in _SHAPES if way[1] in marks and way != "lakh"] if marks & {"_", "'"} else [".,", ",."]
    least = _NEARLY_ALL * len(digits if forced else texts)
    fitting = [way for way in candidates if sum(map(bool, map(_SHAPES[way].fullmatch, digits))) >= least]
    return fitting or (["lakh"] if len(digits) == len(texts) and _all_fit(digits, "lakh") else [])


def is_plain(texts: Sequence[str]) -> bool:
    """True if no entry has a mark that a plain number lacks."""
    few = texts[:100]  # most columns of words tell at once
    return _ODD.search("\n".join(few)) is None and _ODD.search("\n".join(texts)) is None


def written_form(texts: Sequence[str], way: str, doubtful: bool) -> str:
    """Describe how a column writes its numbers, such as "$ () thousands"; "" where plainly, or some entry does not fit.

    doubtful: the way is one of two; then dots of amounts may be thousands, and stay text.
    """
    if way == ".," and is_plain(texts):
        return ""
    entries = [_split_entry(text) for text in texts]
    known = [entry for entry in entries if entry is not None]
    digits = "".join(entry.digits for entry in known)
    marks = {entry.mark for entry in known} or {""}
    brackets = any(entry.sign == "(" for entry in known)
    if brackets or marks != {""}:
        amounts = marks.isdisjoint({"", "%"})
        strict = None not in entries and len(marks) == 1 and _all_fit([entry.digits for entry in known], way)
        if not strict or (doubtful and amounts and "." in digits):
            return ""
    usual = {".,": "thousands" if "," in digits else "", ",.": "decimal" if "," in digits or "." in digits else ""}
    words = (marks.pop() if len(marks) == 1 else "", "()" if brackets else "", usual.get(way, f"{_GIVEN}{way}"))
    return " ".join(word for word in words if word)


def reader(form: str) -> Callable[[str], float]:
    """Make what reads a number of this form, NaN where it is none; an amount may lack its currency."""
    mark, way = _mark_and_way(form)
    shape, decimal = _SHAPES[way], "." if way == "lakh" else way[0]

    def read(text: str) -> float:
        entry = _split_entry(text)
        if entry is None:
            return float(text) if text.strip().lower().lstrip("+-") in ("inf", "infinity") else float("nan")
        wrong = entry.mark != mark and (entry.mark or mark == "%")
        if wrong or not shape.fullmatch(entry.digits):
            return float("nan")
        digits = "".join("." if letter == decimal else letter.strip(".,_'") for letter in entry.digits)
        return -float(digits) if entry.sign in ("-", "(") else float(digits)

    return read


def in_words(form: str) -> str:
    """Say in words how numbers of this form are read."""
    mark, way = _mark_and_way(form)
    words = ["percentages, 12.5% as 12.5"] if mark == "%" else [f"amounts, without {mark}"] if mark else []
    words += ["brackets as a minus sign"] if "()" in form else []
    if way == ",.":
        words += ["the comma as a decimal point"]
    elif way == "lakh":
        words += ["commas as marks of thousands and lakhs"]
    elif way != ".,":
        words += [f"{way[0]!r} as the decimal point, {_THOUSANDS[way[1]]} as marks of thousands"]
    elif "thousands" in form:
        words += ["commas as marks of thousands"]
    return ", ".join(words)


def _mark_and_way(form: str) -> tuple[str, str]:
    mark, way = "", ".,"
    for word in form.split():
        if word == "decimal" or word.startswith(_GIVEN):
            way = ",." if word == "decimal" else word.removeprefix(_GIVEN)
        elif word not in ("()", "thousands"):
            mark = word
    return mark, way


def _all_fit(digits: Sequence[str], way: str) -> bool:
    return all(_SHAPES[way].fullmatch(text) for text in digits)


def _split_entry(text: str) -> _Entry | None:
    """Take a number apart; None where there is more than one sign or mark, or what is left is no number."""
    match = _ENTRY.fullmatch(text)
    if match is None:
        return None
    sign = match["before"] + match["sign"]
    if len(sign) > 1 or (sign == "(") != bool(match["close"]) or (match["front"] and match["back"]):
        return None
    return _Entry(match["front"] or match["back"] or "", sign, match["digits"].translate(_ONE_MARK).rstrip("_"))
