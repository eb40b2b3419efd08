"""Words that a reader may not know, explained on hover and by keyboard, and listed at the end of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

TERMS = {
    "true positive rate": "Of those who have the positive label, the share that the model finds. Also called recall.",
    "false positive rate": "Of those who do not have the positive label, the share that the model calls positive.",
    "predicted positive": "The share of a group that the model calls positive, whatever is true. Also: selection rate.",
    "TPRD": "True positive rate difference: the highest rate among the groups minus the lowest. 0 is even.",
    "maxFNR": "Worst false negative rate: of the group served worst, the share of positives that the model misses.",
    "equalised-odds gap": "The larger of the gap in true positive rate and the gap in false positive rate.",
    "equal-opportunity gap": "Highest true positive rate among the groups minus the lowest. 0 is even.",
    "recall-parity gap": "Highest recall among the labels minus the lowest. 0 is even.",
    "interval": "Where the true value probably lies: 95 of 100 such intervals hold it.",
    "effective sample size": "How many equally weighted samples would tell as much as these weighted ones.",
    "levelling down": "A gap that shrinks because the group that was served best is served worse.",
    "cell": "All samples with the same label and the same group.",
    "exemplars": "A small set of samples with known groups that the method compares itself on while it learns.",
    "margin": "Probability of the given label minus that of the best other one, averaged over training.",
    "score": "The number that the method learns for a sample; a higher score gives a higher weight.",
    "weight": "How much a sample counts in training; 1 is an even share.",
    "AUC": "Chance that a wrong label is ranked above a right one; 0.5 is guessing, 1 is perfect.",
}
_WORDS = re.compile(rf"(?<![\w-])({'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})(?![\w-])", re.I)
_CODE = re.compile(r"(`[^`\n]+`|(?<![\w-])--[a-z][a-z-]+)")
_NAMES = {name.lower(): name for name in TERMS}


class Glossary:
    """Marks words of a page's sentences, and knows afterwards which ones the page has used."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}

    def mark(self, text: str) -> Any:
        """The escaped text, with each known word that was not marked before as something to point at or tab to."""
        from markupsafe import Markup

        parts = _WORDS.split(text)
        return Markup("").join(coded(part) if k % 2 == 0 else self._marked(part) for k, part in enumerate(parts))

    def _marked(self, word: str) -> Any:
        from markupsafe import Markup, escape

        name = _NAMES[word.lower()]
        if name in self.used:
            return escape(word)
        self.used[name] = None
        form = Markup('<span class="term" role="button" tabindex="0" aria-describedby="{}">{}</span>')
        return form.format(anchor(name), word)

    def listed(self) -> Iterable[tuple[str, str, str]]:
        """Anchor, word and meaning of every word used, by the alphabet."""
        return [(anchor(name), name, TERMS[name]) for name in sorted(self.used, key=str.lower)]


def coded(text: str) -> Any:
    """The escaped text, with commands in backticks and flags set as code."""
    from markupsafe import Markup, escape

    parts = _CODE.split(text)
    form = Markup("<code>{}</code>")
    return Markup("").join(form.format(p.strip("`")) if k % 2 else escape(p) for k, p in enumerate(parts))


def anchor(name: str) -> str:
    """The id of a word's meaning."""
    return "term-" + re.sub(r"\W+", "-", name.lower())
