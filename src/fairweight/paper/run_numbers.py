"""The numbers of a finished run that tables show, in the units that they are printed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.metrics import GroupTable
from fairweight.runs.folder import METRICS, RunFolder

# Beside the printed numbers: key -> title, and how many digits.
BESIDE: dict[str, tuple[str, int]] = {
    "tpr_std": ("std of TPRs", 2),
    "tpr_worst_tenth": ("worst tenth", 2),
    "floor_tprd": ("TPRD of equal groups", 2),
    "equalised_odds_gap": ("equalised odds gap", 2),
    "positive_rate": ("positive rate", 2),
    "score_std": ("std of scores", 4),
    "effective_size": ("effective size", 3),
    "auc_wrong_labels": ("AUC wrong labels", 3),
    "trainings": ("trainings", 0),
    "seconds": ("seconds", 0),
}
_PERCENT = ("tprd", "max_fnr", "accuracy", "balanced_accuracy", "tpr_std", "tpr_worst_tenth", "equalised_odds_gap")


def of_run(folder: RunFolder) -> dict[str, float]:
    """Of a run's folder."""
    metrics = folder.read(METRICS)
    numbers = of_metrics(metrics)
    scores: Mapping[str, float] = metrics.get("scores", {})
    names = {"std": "score_std", "effective_size": "effective_size", "auc_wrong_labels": "auc_wrong_labels"}
    numbers |= {ours: float(scores[theirs]) for theirs, ours in names.items() if theirs in scores}
    numbers["seconds"] = float(metrics["run"]["seconds"])
    if "search" in metrics:
        numbers["trainings"] = float(metrics["search"]["trainings"])
    return numbers


def of_table(table: GroupTable) -> dict[str, float]:
    """Of a table that no run's folder holds."""
    return of_metrics(table.to_dict())


def of_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Of what metrics.json says of the test part; what could not be estimated is left out."""
    numbers = {key: 100 * float(metrics[key]) for key in _PERCENT if metrics.get(key) is not None}
    floor = metrics["noise_floor"]["tprd"]["mean"]
    if floor is not None:
        numbers["floor_tprd"] = 100 * float(floor)
    groups = metrics["groups"]
    if metrics["by"] == "label":
        numbers.pop("equalised_odds_gap", None)  # of classes against the others: nobody asks for it
    elif metrics["positive"] is not None:
        total = sum(group["n"] for group in groups)
        said = sum(group["n"] * group["selection_rate"] for group in groups if group["n"])
        numbers["positive_rate"] = 100 * said / total if total else 0.0
    return numbers


def loss_ratios(folder: RunFolder, label: str = "2") -> dict[str, float]:
    """EMA loss of the training samples with this label over that of the others, plain and weighted."""
    weights = folder.read_weights()
    those = weights["label"].astype(str) == label
    return {
        name: float(weights.loc[those, column].mean() / weights.loc[~those, column].mean())
        for name, column in {"loss_ratio": "ema_loss", "weighted_loss_ratio": "ema_weighted_loss"}.items()
    }
