"""How weight moved between groups and cells over training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fairweight.report._words import short
from fairweight.report.audit import Trained

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Movement:
    """The mean weight of each part of the training set at the start and after each epoch."""

    names: tuple[str, ...]
    counts: tuple[int, ...]  # samples of the part in the training set
    means: Array  # [epochs + 1, parts]; the first is 1, where everybody counts alike, unless weights are fixed

    def most_moved(self, most: int) -> Movement:
        """The parts whose weight ends farthest from 1."""
        import numpy as np

        order = np.argsort(-np.abs(self.means[-1] - 1), kind="stable")[:most]
        return Movement(tuple(self.names[k] for k in order), tuple(self.counts[k] for k in order), self.means[:, order])

    def ends(self) -> list[tuple[str, int, float]]:
        """Name, samples and final mean weight, from the most to the least."""
        last = self.means[-1].tolist()
        return sorted(zip(self.names, self.counts, last, strict=True), key=lambda part: -part[2])


def movement(trained: Trained, by: Literal["label", "group", "cell"]) -> Movement | None:
    """By label, group or cell; None where no weight ever moved, or no group is known."""
    import numpy as np

    if not trained.weighs:
        return None
    codes, names = parts_of(trained.weights, by)
    if len(names) == 0:
        return None
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    if trained.weight_path is not None and trained.path_rows is not None and len(trained.weight_path):
        rows = codes[trained.path_rows]
        means = np.stack([_means(rows, np.asarray(epoch, dtype=float), len(names)) for epoch in trained.weight_path])
    else:
        means = _means(codes, trained.given_weight.to_numpy(dtype=float), len(names))[None]
    seen = ~np.isnan(means).any(axis=0)  # a part of which no path was kept
    start = means[:1] if trained.weights_are_fixed else np.ones((1, len(names)))
    kept = np.concatenate([start, means])[:, seen]
    return Movement(tuple(n for n, s in zip(names, seen, strict=True) if s), tuple(counts[seen].tolist()), kept)


def parts_of(weights: pd.DataFrame, by: Literal["label", "group", "cell"]) -> tuple[Array, list[str]]:
    """The part that each sample is in, and their names; -1 where its group is not known. Empty ones are left out."""
    import numpy as np

    codes, names = _coded(weights["label" if by == "cell" else by])
    if by == "cell":
        groups, group_names = _coded(weights["group"])
        codes = np.where(groups < 0, -1, codes * len(group_names) + groups)
        names = [f"{short(label)} · {short(group)}" for label in names for group in group_names]
    present = np.unique(codes[codes >= 0])
    return np.where(codes < 0, -1, np.searchsorted(present, codes)), [names[code] for code in present]


def _coded(column: pd.Series[Any]) -> tuple[Array, list[str]]:
    import numpy as np
    import pandas as pd

    as_category = column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")
    return np.asarray(as_category.cat.codes, dtype=np.int64), [str(name) for name in as_category.cat.categories]


def _means(codes: Array, values: Array, size: int) -> Array:
    """The mean of each part's values; NaN where it has none."""
    import numpy as np

    known = (codes >= 0) & ~np.isnan(values)
    totals = np.bincount(codes[known], weights=values[known], minlength=size)
    counts = np.bincount(codes[known], minlength=size)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
