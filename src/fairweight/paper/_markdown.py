"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(titles: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table of these rows under these titles."""
    named = list(titles)
    return "\n".join([line(named), "|" + "---|" * len(named), *map(line, rows)])


def line(cells: Iterable[object]) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def seeds_text(n: int) -> str:
    """How many seeds, in words."""
    return f"{n} seed" if n == 1 else f"{n} seeds"
