"""Labels that are probably wrong, where no row is trusted (apps/_wrong_labels.py has the rule where some are).

Labels are ranked by the margin, in probabilities: that of models which were not trained on the row, where it is given,
or else the average over training. There each visit is judged before the step that learns from it, so early visits are
opinions of a model that has not seen the label, and no visit of a sure network outweighs the others. Ties go to the
higher average loss, then to the lower row. A score's rank takes no part: on MNIST it adds nothing, and on tables it is
mostly the weight of a cell. A sample is suspected where its margin is below 0: the model prefers another label. Where
classes overlap, such samples are hard cases as well as wrong labels, and nothing here tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

RULE = "the average probability margin over training, as no trusted rows tell wrong labels from hard ones"
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


def suspicion(weights: pd.DataFrame) -> pd.DataFrame:
    """rank (1: the most suspect), suspicion (0 to 1) and suspected, one row per row of weights.parquet."""
    import numpy as np
    import pandas as pd

    margin, loss = margin_of(weights), weights.get("ema_loss")
    measures = [-margin] if margin is not None else []
    measures += [loss] if loss is not None and loss.notna().any() else []
    if not measures:
        raise BadInput("these weights hold no loss or margin to rank labels by; train with this version.")
    ranks = [(measure.rank(na_option="top") - 0.5).to_numpy() / len(weights) for measure in measures]
    order = np.lexsort((np.arange(len(weights)), *(-rank for rank in reversed(ranks))))
    place = np.empty(len(weights), dtype=np.int64)
    place[order] = np.arange(1, len(weights) + 1)
    suspected = False if margin is None else margin < 0
    return pd.DataFrame({"rank": place, "suspicion": ranks[0], "suspected": suspected}, index=weights.index)


def margin_of(weights: pd.DataFrame) -> pd.Series[float] | None:
    """Average margin over training, in probabilities where the run has it."""
    return next((weights[name] for name in MARGINS if name in weights and weights[name].notna().any()), None)


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
