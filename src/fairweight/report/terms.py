"""Words that a reader may not know, explained on hover and by keyboard, and listed at the end of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fairweight.report._format import words

_CODE = re.compile(r"(`[^`\n]+`|(?<![\w-])--[a-z][a-z-]+)")


class Glossary:
    """Marks words of a page's sentences, and knows afterwards which ones the page has used."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self._names = {name.lower(): name for name in words("terms")}
        known = "|".join(sorted(map(re.escape, self._names), key=len, reverse=True))
        self._known = re.compile(rf"(?<![\w-])({known})(?![\w-])", re.IGNORECASE)

    def mark(self, text: str) -> Any:
        """The escaped text, with each known word that was not marked before as something to point at or tab to."""
        from markupsafe import Markup

        parts = self._known.split(text)
        return Markup("").join(coded(part) if k % 2 == 0 else self._marked(part) for k, part in enumerate(parts))

    def _marked(self, word: str) -> Any:
        from markupsafe import Markup, escape

        name = self._names[word.lower()]
        if name in self.used:
            return escape(word)
        self.used[name] = None
        form = Markup('<span class="term" role="button" tabindex="0" aria-describedby="{}">{}</span>')
        return form.format(anchor(name), word)

    def listed(self) -> Iterable[tuple[str, str, str]]:
        """Anchor, word and meaning of every word used, by the alphabet."""
        return [(anchor(name), name, words("terms")[name]) for name in sorted(self.used, key=str.lower)]


def coded(text: str) -> Any:
    """The escaped text, with commands in backticks and flags set as code."""
    from markupsafe import Markup, escape

    parts = _CODE.split(text)
    form = Markup("<code>{}</code>")
    return Markup("").join(form.format(p.strip("`")) if k % 2 else escape(p) for k, p in enumerate(parts))


def anchor(name: str) -> str:
    """The id of a word's meaning."""
    return "term-" + re.sub(r"\W+", "-", name.lower())
