"""Columns that give the label away, or stand for the sensitive attribute under another name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fairweight.data.table.values import find_kind, numbers, words

if TYPE_CHECKING:
    import pandas as pd

ALMOST = 0.995  # of the way from guessing the commonest answer to knowing it
_WORDS = re.compile(r"[^0-9a-z<>=]+")


def find_leaks(train: pd.DataFrame, answer: Tensor, names: Sequence[str], exclude: Sequence[str]) -> dict[str, str]:
    """Columns from which the answer can be read off, with how: a copy, a threshold, or its name in their text."""
    import numpy as np

    truth = answer.numpy()
    known = truth >= 0
    if known.sum() < 20:
        return {}
    truth = truth[known]
    found: dict[str, str] = {}
    for name in map(str, train.columns):
        if name in exclude:
            continue
        values = train[name][known]
        codes, texts = words(values)
        table = np.zeros((len(texts) + 1, len(names)))  # [distinct, answers]; the last row counts what is missing
        np.add.at(table, (codes, truth), 1)
        if values.dtype.kind not in "biufcmM" and _names_inside(texts, table[:-1], names):
            found[name] = "its text contains the answer"
        elif _tells(table):
            found[name] = "each of its values goes with one answer"
        elif find_kind(values)[0] == "number" and _parts(numbers(values), truth):
            found[name] = "a threshold on it gives the answer"
    return found


def _skill(right: float, counts: Any) -> bool:
    """Whether so many right answers are almost all that could be gained over guessing."""
    total, guess = counts.sum(), counts.max()
    return bool(guess < total and (right - guess) / (total - guess) >= ALMOST)


def _tells(table: Any) -> bool:
    """Whether knowing the value is knowing the answer, over values that recur."""
    # Values that occur once fit any answer; only a column that repeats itself is evidence.
    if (table.sum(axis=1) > 0).sum() > 0.1 * table.sum():
        return False
    return _skill(table.max(axis=1).sum(), table.sum(axis=0))


def _parts(values: Any, truth: Any) -> bool:
    """Whether one threshold on a number separates two answers."""
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


def _names_inside(texts: list[str], table: Any, names: Sequence[str]) -> bool:
    """Whether the text of nearly every row holds its answer's name: anywhere, or as its first or last word."""
    lower = {name.lower(): place for place, name in enumerate(names)}
    plain = [text.lower() for text in texts]
    for end in (0, -1):
        said = [lower.get(_WORDS.split(text)[end], -1) if text not in lower else -1 for text in plain]
        if _said(said, table) >= ALMOST * table.sum():
            return True
    if min(map(len, lower)) < 2:
        return False  # a single letter or digit is in most texts by chance
    said = []
    for text in plain:
        inside = [name for name in lower if name in text and name != text]
        # One name may contain another ("male" in "female"): the longest that fits is meant.
        said.append(lower[max(inside, key=len)] if inside else -1)
    return bool(_said(said, table) >= ALMOST * table.sum())


def _said(said: list[int], table: Any) -> float:
    """How many rows have the answer that their text says."""
    return float(sum(table[row, place] for row, place in enumerate(said) if place >= 0))
