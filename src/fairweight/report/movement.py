"""How weight moved between labels, groups or cells over training."""

from __future__ import annotations

from typing import Any, NamedTuple

from fairweight.report._format import short
from fairweight.report.audit import Trained


class Part(NamedTuple):
    """One label, group or cell of the training set."""

    name: str
    n: int  # its samples
    means: Any  # mean weight at the start and after each epoch
    end: float  # the last of them


def movement(trained: Trained, by: str) -> list[Part]:
    """By "label", "group" or "cell", farthest from 1 at the end first; none where no weight moved or no group is known.

    All start at 1, where everybody counts alike, unless weights are fixed.
    """
    import numpy as np
    import pandas as pd

    parts = trained.weights.groupby(["label", "group"] if by == "cell" else [by], observed=True)
    sizes = parts.size()
    if not trained.weighs or sizes.empty:
        return []
    codes = parts.ngroup().to_numpy()  # -1 where the group is not known
    weights = trained.given_weight.to_numpy(dtype=float)[None]  # [epochs, samples]
    if trained.weight_path is not None and trained.path_rows is not None and len(trained.weight_path):
        weights, codes = np.asarray(trained.weight_path, dtype=float), codes[trained.path_rows]
    means = pd.DataFrame(weights.T).groupby(codes).mean().reindex(range(len(sizes))).to_numpy()  # [parts, epochs]
    means = np.concatenate([means[:, :1] if trained.weights_are_fixed else np.ones_like(means[:, :1]), means], axis=1)
    names = [" · ".join(map(short, key)) if by == "cell" else str(key) for key in sizes.index]
    found = [Part(*part, end=float(part[2][-1])) for part in zip(names, sizes.tolist(), means, strict=True)]
    return sorted((part for part in found if part.end == part.end), key=lambda part: -abs(part.end - 1))
