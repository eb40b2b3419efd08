"""Labels that are probably wrong, where no row is trusted (apps/suspects.py has the rule where some are).

Labels are ranked by the margin, in probabilities: that of models which were not trained on the row, where it is given,
or else the average over training, where each visit is judged before the step that learns from it. Ties go to the
higher average loss, then to the lower row. A score's rank takes no part: on tables it is mostly the weight of a cell. A
sample is suspected where its margin is below 0; where classes overlap, such samples are hard cases as well as wrong
labels, and nothing here tells them apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairweight.errors import BadInput

RULE = "the average probability margin over training, as no trusted rows tell wrong labels from hard ones"
HELD_OUT = (
    "the probability margin of models that were not trained on the row, as no trusted rows tell wrong labels from hard "
    "ones"
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
        precision = {str(k): value for k, value in self.precision.items()}
        values = {**asdict(self), "precision_at": precision, "precision_at_true_count": self.precision[self.wrong]}
        del values["precision"]
        return values


def suspicion(weights: pd.DataFrame, held_out: Any = None) -> pd.DataFrame:
    """rank (1: the most suspect), suspicion (0 to 1) and suspected, one row per row of weights.parquet.

    held_out: margins [N] by models that were not trained on the row; None takes those over training.
    """
    margin = margin_of(weights) if held_out is None else pd.Series(held_out, index=weights.index)
    loss = weights.get("ema_loss")
    measures = [-margin] if margin is not None else []
    measures += [loss] if loss is not None and loss.notna().any() else []
    if not measures:
        raise BadInput("these weights hold no loss or margin to rank labels by; train with this version.")
    ranks = [(measure.rank(na_option="top") - 0.5).to_numpy() / len(weights) for measure in measures]
    suspected = False if margin is None else margin < 0
    return pd.DataFrame({"rank": places(*ranks), "suspicion": ranks[0], "suspected": suspected}, index=weights.index)


def places(*measures: Any) -> Any:
    """Place of each row from 1, the highest first; ties go by the next measure, then to the lower row."""  # [N]
    ranks = np.empty(len(measures[0]), dtype=np.int64)
    order = np.lexsort((np.arange(len(ranks)), *(-np.asarray(measure) for measure in reversed(measures))))
    ranks[order] = np.arange(1, len(ranks) + 1)
    return ranks


def margin_of(weights: pd.DataFrame) -> pd.Series[float] | None:
    """Average margin over training, in probabilities where the run has it."""
    return next((weights[name] for name in MARGINS if name in weights and weights[name].notna().any()), None)


def detection(weights: pd.DataFrame, ranked: pd.DataFrame) -> Detection | None:
    """AUC and precision at k against the true labels; None where those are not known, or none or all are wrong."""
    from sklearn.metrics import roc_auc_score

    if "true_label" not in weights:
        return None
    wrong = (weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy()
    count = int(wrong.sum())
    if count in (0, len(wrong)):
        return None
    rank = ranked["rank"].to_numpy()
    found_wrong = np.cumsum(wrong[np.argsort(rank)])
    sizes = sorted({k for k in (10, 100, 1_000, 10_000) if k < len(wrong)} | {count})
    suggested = None
    if "suggested" in weights:
        right = (weights["suggested"].astype(str) == weights["true_label"].astype(str)).to_numpy()
        suggested = float(right[wrong].mean())
    precision = {k: float(found_wrong[k - 1]) / k for k in sizes}
    return Detection(count, len(wrong), float(roc_auc_score(wrong, -rank)), precision, suggested)
