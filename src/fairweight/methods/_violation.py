"""How far hard predictions are from a constraint, as a table over label and group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from fairweight.errors import MissingGroups

Constraint = Literal["equal-opportunity", "equal-odds", "demographic-parity", "equal-recall", "rate"]
BY_GROUP = ("equal-opportunity", "equal-odds", "demographic-parity")
CONSTRAINTS = (*BY_GROUP, "equal-recall", "rate")


def violation(
    constraint: Constraint,
    labels: Tensor,
    groups: Tensor | None,
    predictions: Tensor,
    shape: tuple[int, ...],
    *,
    positive: int = 1,
    target: Mapping[int, float] | None = None,
) -> Tensor:
    """By how much each label and group should count for more; [K, G + 1], column 0 where the group is not known.

    A rate without samples is no violation. [K, 1] stands for every group.
    """
    table = torch.zeros(shape, dtype=torch.float64)
    known = (labels < shape[0]).cpu()  # a set measured on may hold labels and groups that training does not
    labels, predictions = labels.cpu()[known], predictions.cpu()[known]
    if constraint == "rate":
        for label, rate in (target or {}).items():
            table[label] = rate - (predictions == label).double().mean()
        return table
    if shape[1] == 1 and constraint == "equal-recall":
        return _class_recall(labels, predictions, shape[0])[:, None]
    if groups is None:
        raise MissingGroups(f"{constraint} compares groups; give the group of each sample it is measured on.")
    groups = groups.cpu()[known]
    groups = torch.where(groups < shape[1] - 1, groups, -1)
    if constraint == "equal-recall":
        return _group_recall(labels, groups, predictions, table)
    predicted, true = predictions == positive, labels == positive
    for group in range(shape[1] - 1):
        member = groups == group
        up = _gap(predicted, torch.ones_like(true) if constraint == "demographic-parity" else true, member)
        table[:, group + 1] = -_gap(predicted, ~true, member) if constraint == "equal-odds" else -up
        table[positive, group + 1] = up
    return table


def _gap(predicted: Tensor, base: Tensor, member: Tensor) -> Tensor:
    """The rate among all of base minus that among its members of the group; 0 where there is none."""  # []
    if not bool((base & member).any()):
        return torch.zeros((), dtype=torch.float64)
    return predicted[base].double().mean() - predicted[base & member].double().mean()


def _class_recall(labels: Tensor, predictions: Tensor, classes: int) -> Tensor:
    """Mean recall over classes minus each class's own; 0 for a class without samples."""  # [K]
    number, right = (torch.bincount(those, minlength=classes) for those in (labels, labels[predictions == labels]))
    recall = right / number.double()
    return (recall.nanmean() - recall).nan_to_num(0.0)


def _group_recall(labels: Tensor, groups: Tensor, predictions: Tensor, table: Tensor) -> Tensor:
    """Each class's recall minus its recall in each group.

    A class that lives in one group alone has nothing to be compared with there: it is compared with the mean recall
    over classes, or class as attribute would never move.
    """  # [K, G + 1]
    pivot = _class_recall(labels, predictions, len(table))
    for label in range(len(table)):
        own = labels == label
        homes = torch.unique(groups[own & (groups >= 0)]).tolist()
        for group in homes:
            alone = len(homes) == 1
            table[label, group + 1] = pivot[label] if alone else _gap(predictions == labels, own, groups == group)
    return table
