"""The samples that a reader looks at first: weighted up and down most, and the most suspect labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairweight.report.audit import Trained

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Places = np.ndarray[Any, np.dtype[np.int64]]


def weighted_most(weights: pd.DataFrame, given: pd.Series[float], *, up: bool) -> Places:
    """Positions by weight, the highest (or lowest) first; of equals, those pushed more clearly, then the lower row."""
    import numpy as np

    sign = -1.0 if up else 1.0
    push = weights["ema_push"].to_numpy(dtype=float) if "ema_push" in weights else np.zeros(len(weights))
    order = np.lexsort((np.arange(len(weights)), sign * np.nan_to_num(push), sign * given.to_numpy(dtype=float)))
    return order[given.notna().to_numpy()[order]]


def most_suspect(suspects: pd.DataFrame) -> Places:
    """Positions by suspicion, the most suspect first."""
    import numpy as np

    return np.argsort(suspects["rank"].to_numpy(), kind="stable")


def worth_a_picture(trained: Trained, most: int) -> list[int]:
    """Positions whose picture the page carries: a third each of the three lists, each position once."""
    lists = [most_suspect(trained.suspects)]
    if trained.weighs:
        given = trained.given_weight
        lists += [weighted_most(trained.weights, given, up=up) for up in (True, False)]
    chosen: dict[int, None] = {}
    for place in range(len(trained.weights)):
        for ranked in lists:
            if len(chosen) >= most:
                return list(chosen)
            if place < len(ranked):
                chosen.setdefault(int(ranked[place]))
    return list(chosen)
