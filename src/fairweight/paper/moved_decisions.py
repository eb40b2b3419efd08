"""Moves the decisions of a finished model: no training, and never a look at a test label."""

from __future__ import annotations

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.metagradient.passes import predicted
from fairweight.metrics import GroupTable, group_table
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import by_class

BUDGET = 0.002  # of accuracy that a bias per class may cost, on the exemplars
FRACTIONS = tuple(k / 20 for k in range(21))  # from none of it


def same_rate(folder: RunFolder, like: RunFolder) -> GroupTable:
    """The run's model on test, its threshold moved until as many are predicted positive as by the other run.

    A gain that this reaches too is a gain of the threshold.
    """
    logits, labels, groups = folder.read_logits("test")
    other_logits, other_labels, _ = like.read_logits("test")
    if not torch.equal(labels, other_labels):
        raise BadInput(f"{folder.path} and {like.path} were tested on different samples; compare like with like.")
    positives = int((predicted(other_logits) == 1).sum())
    decisions = torch.zeros_like(labels)
    decisions[torch.argsort(positive_margin(logits), descending=True, stable=True)[:positives]] = 1
    return group_table(labels, decisions, groups, missing="ignore", label_names=("0", "1"))


def positive_margin(logits: Tensor) -> Tensor:
    """How far a sample leans to the positive of two classes."""  # [N]
    flat = by_class(logits)
    if flat.shape[1] > 2:
        raise BadInput(f"a threshold is moved between two classes and this model has {flat.shape[1]}.")
    return flat[:, 1] - flat[:, 0]


def class_bias(folder: RunFolder, fraction: float | None = 1.0) -> GroupTable:
    """The run's model on test with a bias per class, fitted on the exemplar set to even out the classes' recalls.

    fraction: of the bias that is added; None chooses it on the exemplar set within BUDGET.
    """
    exemplar_logits, exemplar_labels, _ = folder.read_logits("exemplar")
    fraction = within_budget(exemplar_logits, exemplar_labels) if fraction is None else fraction
    logits, labels, groups = folder.read_logits("test")
    moved = logits + fraction * even_recalls(exemplar_logits, exemplar_labels)
    return group_table(labels, moved.argmax(dim=1), groups, missing="ignore")


def within_budget(logits: Tensor, labels: Tensor, budget: float = BUDGET) -> float:
    """The fraction of the bias that evens out recalls most and costs at most the budget in accuracy.

    Each half of the samples judges the bias that the other half fitted; 0 where every fraction costs more.
    """
    halves = [torch.arange(len(labels)) % 2 == half for half in (0, 1)]
    biases = [even_recalls(logits[~half], labels[~half]) for half in halves]
    held_labels = torch.cat([labels[half] for half in halves])
    results = []
    for fraction in FRACTIONS:
        pairs = zip(halves, biases, strict=True)
        is_right = torch.cat([(logits[half] + fraction * bias).argmax(dim=1) == labels[half] for half, bias in pairs])
        recall = _recalls(is_right, held_labels, logits.shape[1])
        spread, accuracy = float(recall[~recall.isnan()].std(correction=0)), float(is_right.double().mean())
        results.append((spread, fraction, accuracy))
    least_accuracy = results[0][2] - budget  # the first is plain training
    affordable = ((spread, fraction) for spread, fraction, accuracy in results if accuracy >= least_accuracy)
    return min(affordable, default=(0.0, 0.0))[1]


def _recalls(right: Tensor, labels: Tensor, classes: int) -> Tensor:
    """NaN for a class without samples."""  # [K]
    count, hits = (torch.bincount(subset, minlength=classes).double() for subset in (labels, labels[right]))
    return hits / count


def even_recalls(logits: Tensor, labels: Tensor, *, steps: int = 300, rate: float = 1.0) -> Tensor:
    """Biases that bring each class's recall towards the mean: those of the smallest range met on the way.

    A class without samples has no recall, and its bias stays 0.
    """  # [K]
    bias = torch.zeros(logits.shape[1], dtype=logits.dtype)
    best, smallest = bias, torch.inf
    for step in range(steps):
        recall = _recalls((logits + bias).argmax(dim=1) == labels, labels, len(bias))
        known = recall[~recall.isnan()]
        spread = float(known.max() - known.min())
        if spread < smallest:
            best, smallest = bias, spread
        bias = bias + rate / (1 + step) ** 0.5 * (known.mean() - recall).nan_to_num(0.0).to(bias.dtype)
    return best
