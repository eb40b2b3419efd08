"""Columns that give the label away, or stand for the sensitive attribute under another name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
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
        codes = seen.factors[0][known]
        if seen.is_text and _text_contains_answer(codes, seen.texts, truth, names):
            found[name] = "its text contains the answer"
        elif _value_gives_answer(codes, truth, len(names)):
            found[name] = "each of its values goes with one answer"
        elif seen.kind[0] == "number" and _threshold_separates(seen.numbers[known], truth):
            found[name] = "a threshold on it gives the answer"
    return found


def _almost_all_right(right: float, counts: Any) -> bool:
    """True if so many right answers are almost all that could be gained over guessing."""
    total, guess = counts.sum(), counts.max()
    return bool(guess < total and (right - guess) / (total - guess) >= ALMOST)


def _value_gives_answer(codes: Any, truth: Any, answers: int) -> bool:
    """True if the value determines the answer, over values that occur more than once."""
    pairs, counts = np.unique((codes + 1) * answers + truth, return_counts=True)  # missing is a value too
    values, first = np.unique(pairs // answers, return_index=True)
    # Values that occur once fit any answer; only a column that repeats itself is evidence.
    if len(values) > 0.1 * len(truth):
        return False
    return _almost_all_right(np.maximum.reduceat(counts, first).sum(), np.bincount(truth))


def _threshold_separates(values: Any, truth: Any) -> bool:
    """True if one threshold on a number separates two answers."""
    there = ~np.isnan(values)
    values, truth = values[there], truth[there]
    if len(values) < 20 or len(np.unique(truth)) != 2:
        return False
    order = np.argsort(values, kind="stable")
    high = (truth == truth.max())[order]
    below = np.concatenate([[0], np.cumsum(high)])
    cuts = np.concatenate([[True], np.diff(values[order]) > 0, [True]])  # a cut may not part equal values
    right = (high.sum() - below + (np.arange(len(high) + 1) - below))[cuts]
    return _almost_all_right(max(right.max(), (len(high) - right).max()), np.bincount(truth))


def _text_contains_answer(codes: Any, texts: Sequence[str], truth: Any, names: Sequence[str]) -> bool:
    """True if the text of nearly every row holds its answer's name: as its first or last word, or anywhere."""
    plain = [name.lower() for name in names]
    few = np.unique(np.linspace(0, len(truth) - 1, 200).astype(int))  # enough to rule nearly all columns out
    for rows, least in ((few, 0.9), (np.arange(len(truth)), ALMOST)):
        used, place = np.unique(codes[rows], return_inverse=True)
        said = [(-1, -1, -1) if code < 0 else _names_in_text(texts[code].strip().lower(), plain) for code in used]
        if (np.array(said)[place] == truth[rows, None]).mean(axis=0).max() < least:
            return False
    return True


def _names_in_text(text: str, names: Sequence[str]) -> tuple[int, int, int]:
    """Find the name that is the first word, the last word, and the longest one inside ("female" holds "male").

    A text that is nothing but the name is a copy, not a text with the name in it.
    """
    words = _WORDS.split(text)
    first, last = (
        next((place for place, name in enumerate(names) if name == word != text), -1) for word in (words[0], words[-1])
    )
    if min(map(len, names)) < 2:
        return first, last, -1  # a single letter or digit is in most texts by chance
    inside = [place for place, name in enumerate(names) if name in text and name != text]
    return first, last, max(inside, key=lambda place: len(names[place]), default=-1)
