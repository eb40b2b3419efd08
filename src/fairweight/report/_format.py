"""Numbers, names and sentences as text for people."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, TypeGuard

from jinja2 import Environment, PackageLoader, StrictUndefined


def file_text(name: str) -> str:
    """A file of this folder."""
    return files("fairweight.report").joinpath(name).read_text(encoding="utf-8")


def templates(*, autoescape: bool, **options: Any) -> Environment:
    """The templates of this folder; autoescape: as HTML."""
    loader, settings = PackageLoader("fairweight", "report"), {"trim_blocks": True, "lstrip_blocks": True, **options}
    return Environment(loader=loader, undefined=StrictUndefined, autoescape=autoescape, **settings)  # noqa: S701


@cache
def words(section: str) -> dict[str, str]:
    """A section of words.toml."""
    sections = tomllib.loads(file_text("words.toml"))
    return {str(key): str(text) for key, text in sections[section].items()}


class _Sentences(Formatter):
    def format_field(self, value: Any, spec: str) -> Any:
        formats: dict[str, Any] = {"%": percent, "points": points, "number": number, "change": change, "name": short}
        return formats[spec](value) if spec in formats else format(value, spec)


def sentence_and_action(section: str, name: str, values: dict[str, Any]) -> tuple[str, str]:
    """A sentence of words.toml and what to do next, with these values filled in."""
    sentence, _, action = words(section)[name].partition(" Do next: ")
    fill = _Sentences().vformat
    return fill(sentence, (), values), fill(action, (), values)


def known(value: Any) -> TypeGuard[float]:
    """True where there is a number: neither None nor NaN."""
    return value is not None and bool(value == value)


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.1f} %" if known(value) else "not known"


def points(value: float | None) -> str:
    """A difference of two fractions, in percentage points."""
    return f"{100 * value:.1f} points" if known(value) else "not known"


def change(value: float) -> str:
    """A difference of two fractions in hundredths, with its sign; one that rounds to nothing has none."""
    rounded = round(100 * value, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def span(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """An interval in hundredths; empty where there is none."""
    if not known(low) or not known(high):
        return ""
    return f"[{change(low)}, {change(high)}]" if signed else f"[{100 * low:.1f}, {100 * high:.1f}]"


def number(value: float | None) -> str:
    """A plain number with three significant digits."""
    if not known(value):
        return "not known"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def short(name: object, longest: int = 60) -> str:
    """A name on one line and not too long."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in str(name))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def capitalised(sentence: str) -> str:
    """The sentence with a capital at its start and the rest as it is."""
    return sentence[:1].upper() + sentence[1:]
