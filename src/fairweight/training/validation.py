"""Validation numbers after an epoch, for selection: on rows that are neither trained on nor reported."""

from __future__ import annotations

import math

from torch import Tensor, nn

from fairweight.metagradient.passes import predicted
from fairweight.metagradient.solve import evaluate
from fairweight.methods import Reweighter
from fairweight.metrics import group_table
from fairweight.ranks import Ranks
from fairweight.training.predict import logits
from fairweight.types import Batch, Samples


def validation_numbers(
    model: nn.Module, reweighter: Reweighter, samples: Samples, *, grouped: bool = False, ranks: Ranks | None = None
) -> dict[str, float]:
    """Loss, the method's objective, accuracy, TPRD and maxFNR; leaves out what cannot be estimated.

    grouped: whether the method's exemplars have groups, so that its objective means nothing without them.
    """
    found = logits(model, samples, ranks=ranks)  # [N, K]
    losses = reweighter.loss(found, samples.labels.to(found.device))
    groups = None if samples.groups is None else samples.groups.cpu()
    # Rows whose groups are not known at all tell how good the model is, and nothing of a gap.
    unknown = groups is not None and not bool((groups >= 0).any())
    table = group_table(samples.labels.cpu(), predicted(found).cpu(), None if unknown else groups, missing="ignore")
    numbers = {
        "loss": float(losses.mean()),
        "objective": float(losses.mean()) if unknown else _objective(reweighter, losses, samples, grouped),
        "accuracy": table.accuracy,
        "tprd": math.nan if unknown else table.tprd,
        "max_fnr": math.nan if unknown else table.max_fnr,
    }
    return {key: float(value) for key, value in numbers.items() if not math.isnan(value)}


def _objective(reweighter: Reweighter, losses: Tensor, samples: Samples, grouped: bool) -> float:
    """What the method lowers: its objective, or the mean loss where it has none."""
    objective = getattr(reweighter, "objective", None)
    if objective is None or (grouped and samples.groups is None):
        return float(losses.mean())
    labels, groups = samples.labels.to(losses.device), samples.groups
    marked = Batch(labels, labels, None if groups is None else groups.to(losses.device))
    return float(evaluate(objective, losses, marked))
