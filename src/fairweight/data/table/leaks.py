"""Columns that give the label away, or stand for the sensitive attribute under another name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from fairweight.data.table.values import Seen

ALMOST = 0.995  # of the way from guessing the commonest answer to knowing it
_WORDS = re.compile(r"[^0-9a-z<>=]+")


def find_leaks(
    train: Mapping[str, Seen], answer: Tensor, names: Sequence[str], exclude: Sequence[str]
) -> dict[str, str]:
    """Find columns from which the answer can be read off, and how: a copy, a threshold, or its name in their text."""
    truth = answer.numpy()
    known = truth >= 0
    if known.sum() < 20:
        return {}
    truth = truth[known]
    found: dict[str, str] = {}
    for name, seen in train.items():
        if name in exclude:
            continue
        codes, texts = seen.factors
        codes = codes[known]
        if seen.values.dtype.kind not in "biufcmM" and _names_inside(codes, texts, truth, names):
            found[name] = "its text contains the answer"
        elif _tells(codes, truth, len(names)):
            found[name] = "each of its values goes with one answer"
        elif seen.kind[0] == "number" and _parts(seen.numbers[known], truth):
            found[name] = "a threshold on it gives the answer"
    return found


def _skill(right: float, counts: Any) -> bool:
    """True if so many right answers are almost all that could be gained over guessing."""
    total, guess = counts.sum(), counts.max()
    return bool(guess < total and (right - guess) / (total - guess) >= ALMOST)


def _tells(codes: Any, truth: Any, answers: int) -> bool:
    """True if knowing the value is knowing the answer, over values that recur."""
    import numpy as np

    pairs, counts = np.unique((codes + 1) * answers + truth, return_counts=True)  # missing is a value too
    values, first = np.unique(pairs // answers, return_index=True)
    # Values that occur once fit any answer; only a column that repeats itself is evidence.
    if len(values) > 0.1 * len(truth):
        return False
    return _skill(np.maximum.reduceat(counts, first).sum(), np.bincount(truth))


def _parts(values: Any, truth: Any) -> bool:
    """True if one threshold on a number separates two answers."""
    import numpy as np

    there = ~np.isnan(values)
    values, truth = values[there], truth[there]
    if len(values) < 20 or len(np.unique(truth)) != 2:
        return False
    order = np.argsort(values, kind="stable")
    high = (truth == truth.max())[order]
    below = np.concatenate([[0], np.cumsum(high)])
    cuts = np.concatenate([[True], np.diff(values[order]) > 0, [True]])  # a cut may not part equal values
    right = (high.sum() - below + (np.arange(len(high) + 1) - below))[cuts]
    return _skill(max(right.max(), (len(high) - right).max()), np.bincount(truth))


def _names_inside(codes: Any, texts: Any, truth: Any, names: Sequence[str]) -> bool:
    """True if the text of nearly every row holds its answer's name: anywhere, or as its first or last word."""
    import numpy as np

    few = np.unique(np.linspace(0, len(truth) - 1, 500).astype(int))  # enough to rule nearly all columns out
    for rows in (few, np.arange(len(truth))):
        used = np.unique(codes[rows])
        for say in _SAYINGS:
            said = np.full(len(texts) + 1, -1)  # the last is for what is missing
            for code in used[used >= 0]:
                said[code] = say(str(texts[code]).strip().lower(), names)
            if (said[codes[rows]] == truth[rows]).mean() >= ALMOST:
                break
        else:
            return False
    return True


def _first_word(text: str, names: Sequence[str]) -> int:
    return _whole(_WORDS.split(text)[0], text, names)


def _last_word(text: str, names: Sequence[str]) -> int:
    return _whole(_WORDS.split(text)[-1], text, names)


def _whole(word: str, text: str, names: Sequence[str]) -> int:
    """Find the name that a word is; a text that is nothing but the name is a copy, not a text with the name in it."""
    return next((place for place, name in enumerate(names) if name.lower() == word != text), -1)


def _anywhere(text: str, names: Sequence[str]) -> int:
    """Find the longest name inside a text: one may contain another, as "female" does "male"."""
    if min(map(len, names)) < 2:
        return -1  # a single letter or digit is in most texts by chance
    inside = [place for place, name in enumerate(names) if name.lower() in text and name.lower() != text]
    return max(inside, key=lambda place: len(names[place])) if inside else -1


_SAYINGS = (_first_word, _last_word, _anywhere)
