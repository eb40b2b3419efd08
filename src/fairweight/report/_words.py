"""Numbers in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

LONGEST = 60  # characters of a name in a sentence


def known(value: Any) -> bool:
    """Whether there is a number."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as a percentage."""
    return "not known" if value is None or math.isnan(value) else f"{100 * value:.{digits}f} %"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of two fractions."""
    return "not known" if value is None or math.isnan(value) else f"{100 * value:.{digits}f} points"


def change(value: float, digits: int = 1) -> str:
    """A difference of two fractions in hundredths, with its sign; one that rounds to nothing has none."""
    rounded = round(100 * value, digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{0:.{digits}f}"


def span(low: float | None, high: float | None, digits: int = 1, signed: bool = False) -> str:
    """An interval in hundredths; empty where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    if signed:
        return f"[{change(low, digits)}, {change(high, digits)}]"
    return f"[{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def short(name: object, longest: int = LONGEST) -> str:
    """A name on one line and not too long."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in str(name))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def listed(names: Iterable[object], most: int = 3) -> str:
    """A few names, and how many more there are."""
    texts = [short(name) for name in names]
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest


def number(value: float | None) -> str:
    """A plain number with three digits that count."""
    if value is None or math.isnan(value):
        return "not known"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
