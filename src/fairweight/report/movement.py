"""How weight moved between groups and cells over training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.report._format import short
from fairweight.report.audit import Trained

if TYPE_CHECKING:
    import numpy as np

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


def movement(trained: Trained, by: str) -> Movement | None:
    """By "label", "group" or "cell"; None where no weight ever moved, or no group is known."""
    import numpy as np
    import pandas as pd

    parts = trained.weights.groupby(["label", "group"] if by == "cell" else [by], observed=True)
    sizes = parts.size()
    if not trained.weighs or sizes.empty:
        return None
    codes = parts.ngroup().to_numpy()  # -1 where the group is not known
    weights = trained.given_weight.to_numpy(dtype=float)[None]  # [epochs, samples]
    if trained.weight_path is not None and trained.path_rows is not None and len(trained.weight_path):
        weights, codes = np.asarray(trained.weight_path, dtype=float), codes[trained.path_rows]
    means = pd.DataFrame(weights.T).groupby(codes).mean().reindex(range(len(sizes))).to_numpy().T  # [epochs, parts]
    start = means[:1] if trained.weights_are_fixed else np.ones_like(means[:1])
    names = [" · ".join(map(short, key)) if by == "cell" else str(key) for key in sizes.index]
    seen = np.flatnonzero(~np.isnan(means).any(axis=0))  # of other parts no path was kept
    kept = np.concatenate([start, means])[:, seen]
    return Movement(tuple(names[k] for k in seen), tuple(sizes.iloc[seen].tolist()), kept)
