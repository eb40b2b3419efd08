"""Columns that give the label away, or stand for the sensitive attribute under another name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fairweight.data.table.values import TrainColumn

ALMOST = 0.995  # of the way from guessing the commonest answer to knowing it
# The same for a column to be suspected: a column of 95 % of two even labels has 0.90, the best single column of
# honest tables 0.79 (breast cancer by its worst radius), COMPAS's is_recid, known years later, 0.93.
NEARLY = 0.85
_WORDS = re.compile(r"[^0-9a-z<>=]+")


class Leak(NamedTuple):
    """How the answer can be read off a column, and how far that goes from guessing (0) to knowing (1)."""

    how: str
    gained: float


def find_leaks(
    columns: Mapping[str, TrainColumn], answer: Tensor, names: Sequence[str], exclude: Sequence[str],
    least: float = ALMOST,
) -> dict[str, Leak]:  # fmt: skip
    """Find columns from which the answer can be read off, and how: a copy, a threshold, or its name in their text."""
    truth = answer.numpy()
    known = truth >= 0
    if known.sum() < 20:
        return {}
    truth = truth[known]
    leaks: dict[str, Leak] = {}
    for name, column in columns.items():
        if name in exclude:
            continue
        codes = column.factors[0][known]
        if column.is_text and _text_contains_answer(codes, column.texts, truth, names):
            leaks[name] = Leak("its text contains the answer", 1.0)
        elif (gained := _by_value(codes, truth, len(names))) >= least:
            leaks[name] = Leak("each of its values goes with one answer", gained)
        elif column.kind[0] == "number" and (gained := _by_threshold(column.numbers[known], truth)) >= least:
            leaks[name] = Leak("a threshold on it gives the answer", gained)
    return leaks


def _gained(right: float, counts: Any) -> float:
    """Say how far so many right answers go from guessing the commonest answer (0) to knowing it (1)."""
    total, guess = counts.sum(), counts.max()
    return float((right - guess) / (total - guess)) if guess < total else 0.0


def _by_value(codes: Any, truth: Any, answers: int) -> float:
    """How far the value determines the answer, over values that occur more than once."""
    pairs, counts = np.unique((codes + 1) * answers + truth, return_counts=True)  # missing is a value too
    values, first = np.unique(pairs // answers, return_index=True)
    # Values that occur once fit any answer; only a column that repeats itself is evidence.
    if len(values) > 0.1 * len(truth):
        return 0.0
    return _gained(np.maximum.reduceat(counts, first).sum(), np.bincount(truth))


def _by_threshold(values: Any, truth: Any) -> float:
    """How far one threshold on a number separates two answers."""
    present = ~np.isnan(values)
    values, truth = values[present], truth[present]
    if len(values) < 20 or len(np.unique(truth)) != 2:
        return 0.0
    order = np.argsort(values, kind="stable")
    high = (truth == truth.max())[order]
    below = np.concatenate([[0], np.cumsum(high)])
    cuts = np.concatenate([[True], np.diff(values[order]) > 0, [True]])  # a cut may not part equal values
    right = (high.sum() - below + (np.arange(len(high) + 1) - below))[cuts]
    return _gained(max(right.max(), (len(high) - right).max()), np.bincount(truth))


def _text_contains_answer(codes: Any, texts: Sequence[str], truth: Any, names: Sequence[str]) -> bool:
    """True if the text of nearly every row holds its answer's name: as its first or last word, or anywhere."""
    lower = [name.lower() for name in names]
    sample = np.unique(np.linspace(0, len(truth) - 1, 200).astype(int))  # enough to rule nearly all columns out
    for rows, least in ((sample, 0.9), (np.arange(len(truth)), ALMOST)):
        used, place = np.unique(codes[rows], return_inverse=True)
        contained = [(-1,) * 3 if code < 0 else _names_in_text(texts[code].strip().lower(), lower) for code in used]
        if (np.array(contained)[place] == truth[rows, None]).mean(axis=0).max() < least:
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
