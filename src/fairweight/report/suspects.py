"""Labels that are probably wrong, by one rule.

Each training sample has up to three ranks, from 0 (least suspect) to 1: by the lowest point of its score's path, by its
average loss, and by its average margin over training, in probabilities. Where a method learns scores, suspicion is the
middle one of the three, so that one measure gone astray (a reversed look-ahead, an objective that asks for hard
samples) does not decide. Where it learns none, two ranks have no middle, and the margin decides: it is bounded, while a
loss is ruled by the few visits that went worst. Ties go to the higher mean of the ranks, then to the lower row. A
sample is suspected where its average margin is below 0: over the whole of training the model preferred another label.
Where classes overlap, such samples are hard cases as well as wrong labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

RULE = (
    "the middle of three ranks: by the lowest point of the score's path, by the average loss and by the average "
    "probability margin over training; without scores, by that margin"
)
MARGINS = ("mean_probability_margin", "mean_margin")  # the first that the weights hold


@dataclass(frozen=True)
class Detection:
    """How well the ranking finds labels that are known to be wrong."""

    wrong: int  # labels that are
    n: int
    auc: float
    precision: dict[int, float]  # by how many are taken from the top; the true count is among them
    suggested_right: float | None  # share of the wrong labels for which the suggestion is the true one

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "wrong": self.wrong,
            "n": self.n,
            "auc": self.auc,
            "precision_at": {str(k): value for k, value in self.precision.items()},
            "precision_at_true_count": self.precision[self.wrong],
            "suggested_right": self.suggested_right,
        }


def suspicion(weights: pd.DataFrame, lowest_scores: Numbers | None = None) -> pd.DataFrame:
    """rank (1: the most suspect), suspicion (0 to 1) and suspected, one row per row of weights.parquet.

    lowest_scores: each sample's lowest score at the end of any epoch; None: its last score, where the run has any.
    """
    import numpy as np
    import pandas as pd

    scores = weights.get("score") if lowest_scores is None else pd.Series(lowest_scores, index=weights.index)
    margin = next((weights[name] for name in MARGINS if name in weights and weights[name].notna().any()), None)
    measures = pd.DataFrame(
        {
            "score": None if scores is None or scores.nunique() < 2 else -scores,  # all alike: they rank nobody
            "loss": weights.get("ema_loss"),
            "margin": None if margin is None else -margin,
        },
        index=weights.index,
        dtype="float64",
    ).dropna(axis="columns", how="all")
    if measures.empty:
        raise BadInput("these weights hold no loss, margin or score to rank labels by; train with this version.")
    ranks = (measures.rank(na_option="top") - 0.5) / len(weights)
    middle = ranks.median(axis=1) if "score" in ranks else ranks.iloc[:, -1]
    order = np.lexsort((np.arange(len(weights)), -ranks.mean(axis=1), -middle))
    place = np.empty(len(weights), dtype=np.int64)
    place[order] = np.arange(1, len(weights) + 1)
    suspected = False if margin is None else margin < 0
    return pd.DataFrame({"rank": place, "suspicion": middle, "suspected": suspected}, index=weights.index)


def detection(weights: pd.DataFrame, ranked: pd.DataFrame) -> Detection | None:
    """AUC and precision at k against the true labels; None where those are not known, or none or all are wrong."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    if "true_label" not in weights:
        return None
    wrong = (weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy()
    count = int(wrong.sum())
    if count in (0, len(wrong)):
        return None
    place = ranked["rank"].to_numpy()
    found = np.cumsum(wrong[np.argsort(place)])
    sizes = sorted({k for k in (10, 100, 1_000, 10_000) if k < len(wrong)} | {count})
    suggested = None
    if "suggested" in weights:
        right = (weights["suggested"].astype(str) == weights["true_label"].astype(str)).to_numpy()
        suggested = float(right[wrong].mean())
    precision = {k: float(found[k - 1]) / k for k in sizes}
    return Detection(count, len(wrong), float(roc_auc_score(wrong, -place)), precision, suggested)
