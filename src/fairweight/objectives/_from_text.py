"""Objectives as people write them on a command line: "mean + 0.5 * max-discrepancy"."""

from __future__ import annotations

from typing import cast

from fairweight import catalog
from fairweight.errors import BadInput
from fairweight.objectives import Objective


def objective_from(text: str) -> Objective:
    """A sum of named objectives, each with an optional number in front."""
    total: Objective | None = None
    for part in text.split("+"):
        words = [word.strip() for word in part.split("*")]
        if len(words) > 2 or not all(words):
            raise BadInput(f"{text!r} is no objective; write for example 'mean + 0.5 * max-discrepancy'.")
        factor = 1.0
        if len(words) == 2:
            try:
                factor = float(words[0])
            except ValueError:
                raise BadInput(f"{words[0]!r} in {text!r} is no number; write for example '0.5 * variance'.") from None
        term = cast(Objective, catalog.load("objectives", words[-1])())
        term = term if factor == 1.0 else factor * term
        total = term if total is None else total + term
    assert total is not None
    return total
