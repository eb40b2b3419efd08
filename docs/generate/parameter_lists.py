"""Docstrings explain parameters as "name: words. name: words."; the site shows them as a list."""

from __future__ import annotations

import re
from typing import Any

import griffe


class ParameterLists(griffe.Extension):
    """Make a list of each paragraph that explains parameters or attributes by their names."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Go through all that was loaded."""
        self._walk(pkg)

    on_package_loaded = on_package  # its name before griffe 2

    def _walk(self, thing: Any) -> None:
        for member in thing.members.values():
            if member.is_alias:
                continue
            if member.docstring is not None and (member.is_class or member.is_function):
                names = {p.name for p in getattr(member, "parameters", ())}
                if member.is_class:
                    init = member.members.get("__init__")
                    names |= {p.name for p in getattr(init, "parameters", ())} | set(member.all_members)
                member.docstring.value = listed(member.docstring.value, names)
            if member.is_class or member.is_module:
                self._walk(member)


def listed(text: str, names: set[str]) -> str:
    """The docstring with a list in place of each paragraph that begins with one of the names and a colon."""
    parts = []
    for paragraph in text.split("\n\n"):
        said = " ".join(line.strip() for line in paragraph.splitlines())
        found = [
            m for m in re.finditer(r"(?:^|(?<=[.;] ))((?:\w+, )*\w+): ", said) if m.group(1).split(", ")[0] in names
        ]
        if not found or found[0].start() > 0:
            parts.append(paragraph)
            continue
        ends = [*(m.start() for m in found[1:]), len(said)]
        lines = [f"- `{m.group(1)}`: {said[m.end() : end].strip()}" for m, end in zip(found, ends, strict=True)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
