"""Turn the text after a flag into a value."""

from __future__ import annotations

import csv
import json
from typing import Any

from fairweight.errors import BadInput


def listed(text: str, flag: str = "") -> list[str]:
    """The names in "a,b, c"; one with a comma in it stands in double quotes, as in a CSV file."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), []) if word.strip()]


def numbers(text: str, flag: str) -> list[float]:
    """The numbers in "0.1,0.3,1", at least one."""
    try:
        return [float(word) for word in listed(text) or [""]]
    except ValueError:
        raise BadInput(f"{flag} {text}: give numbers with commas between them, such as {flag} 0.1,0.3,1.") from None


def duration(text: str, flag: str) -> float:
    """The seconds in "90", "90s", "5m" or "1h"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"{flag} {text}: give a time such as {flag} 90s, {flag} 5m or {flag} 1h.")
    return seconds


def whole_numbers(text: str, flag: str) -> list[int]:
    """The numbers from 1 in "64,64", "64-64" or "3x32x32"."""
    try:
        numbers = [int(word) for word in text.replace("-", ",").replace("x", ",").split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise BadInput(f"{flag} {text}: give whole numbers from 1 with commas between them, such as 64,64.")
    return numbers


def delimiter(text: str, flag: str = "") -> str:
    """The character, also where its name was given."""
    return {"tab": "\t", "\\t": "\t", "semicolon": ";", "comma": ",", "bar": "|"}.get(text, text)


def share_or_file(text: str, flag: str = "") -> float | str:
    """A share such as 0.2, or the name of a file."""
    try:
        return float(text)
    except ValueError:
        return text


def stopping(patience: int, flag: str) -> dict[str, Any]:
    """When to stop early; 0 epochs of patience: never."""
    if patience < 0:
        raise BadInput(f"{flag} {patience}: give a number of epochs from 1, or 0 to never stop early.")
    return {"metric": "objective", "patience": patience} if patience > 0 else {}


def assigned(entries: list[str], flag: str) -> dict[str, Any]:
    """Values from entries such as "tie=cell" or "score_step.rate=0.1"; a value is JSON where it can be read as such."""
    values: dict[str, Any] = {}
    for name, text in pairs(entries, flag, f"{flag} name=value, such as {flag} tie=cell"):
        place = values
        *outer, last = name.split(".")
        for part in outer:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise BadInput(f"{flag} {name}: {part} was given a value of its own before; give one or the other.")
        place[last] = _json_or_text(text)
    return values


def pairs(entries: list[str], flag: str, usage: str) -> list[tuple[str, str]]:
    """Names and values of entries such as "tie=cell"; usage: how to write one."""
    parts = [tuple(part.strip() for part in entry.partition("=")) for entry in entries]
    for entry, (name, _, value) in zip(entries, parts, strict=True):
        if not name or not value:
            raise BadInput(f"{flag} {entry}: write {usage}.")
    return [(name, value) for name, _, value in parts]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"None": None, "True": True, "False": False}.get(text, text)
