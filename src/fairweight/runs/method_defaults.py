"""What suits a method that learns scores, by what the data looks like; chosen by benchmarks/tabular_choice.py."""

from __future__ import annotations

import inspect
from typing import Any

from fairweight import catalog

STRENGTH = 0.3  # of the term that compares groups, beside the mean loss
TIED_RATE = 0.03  # of the score step where cells share scores: a shared score moves at every step, a sample's own once


def suited_options(method: str, classes: int, *, groups: bool, train_groups: bool = True) -> dict[str, Any]:
    """Objective, ties and score step as plain values; none for methods without scores, which have their paper's.

    Where groups stand beside the label, the objective is the mean loss at natural shares, so that a gap is not closed
    by giving up accuracy everywhere, plus a term that compares groups; samples of a cell share a score besides their
    own. Where the label stands for the group, the method's own defaults are the ones that were chosen for it.
    """
    known = inspect.signature(catalog.load("methods", method)).parameters
    if not {"objective", "tie", "score_step"} <= set(known) or not groups:
        return {}
    chosen: dict[str, Any] = {"objective": f"mean + {STRENGTH:g} * {comparing_term(classes, groups=True)}"}
    if train_groups:
        chosen |= {"tie": "cell", "score_step": {"name": "adaptive", "rate": TIED_RATE}}
    return chosen


def comparing_term(classes: int, *, groups: bool) -> str:
    """The objective that compares groups: by true positive rate, by losses within each label, or the labels' losses."""
    if not groups:
        return "variance"
    return "equal-opportunity-rate" if classes == 2 else "equal-odds"
