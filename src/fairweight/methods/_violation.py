"""How far hard predictions are from a constraint, as a table over label and group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from fairweight.errors import BadInput, MissingGroups

Constraint = Literal["equal-opportunity", "equal-odds", "demographic-parity", "equal-recall", "rate"]
CONSTRAINTS = ("equal-opportunity", "equal-odds", "demographic-parity", "equal-recall", "rate")
BY_GROUP = ("equal-opportunity", "equal-odds", "demographic-parity")


def violation(
    constraint: Constraint,
    labels: Tensor,
    groups: Tensor | None,
    predictions: Tensor,
    shape: tuple[int, int],
    *,
    positive: int = 1,
    target: Mapping[int, float] | None = None,
) -> Tensor:
    """By how much each label and group should count for more; [K, G + 1], column 0 where the group is not known.

    A rate without samples is no violation. [K, 1] stands for every group.
    """
    found = torch.zeros(shape, dtype=torch.float64)
    known = labels < shape[0]  # a set measured on may hold labels and groups that training does not
    labels, predictions = labels[known], predictions[known]
    if groups is not None:
        groups = groups[known]
        groups = torch.where(groups < shape[1] - 1, groups, -1)
    if constraint == "rate":
        for label, rate in (target or {}).items():
            found[label] = rate - _rate(predictions == label)
        return found
    if shape[1] == 1 and constraint == "equal-recall":
        return _class_recall(labels, predictions, shape[0])[:, None]
    if groups is None:
        raise MissingGroups(f"{constraint} compares groups; give the group of each sample it is measured on.")
    if constraint == "equal-recall":
        return _group_recall(labels, groups, predictions, shape)
    positives = torch.zeros(shape[0], dtype=torch.bool)
    positives[positive] = True
    said = predictions == positive
    for group in range(shape[1] - 1):
        member = groups == group
        if constraint == "demographic-parity":
            gap = _gap(said, torch.ones_like(member), member)
            up, down = gap, gap
        else:
            true = labels == positive
            up = _gap(said, true, member)
            down = up if constraint == "equal-opportunity" else _gap(said, ~true, member)
        found[:, group + 1] = torch.where(positives, up, -down)
    return found


def _rate(hits: Tensor) -> Tensor:
    return hits.double().mean()


def _gap(said: Tensor, base: Tensor, member: Tensor) -> Tensor:
    """The rate among all of base minus that among its members of the group; 0 where there is none."""  # []
    if not bool((base & member).any()):
        return torch.zeros((), dtype=torch.float64)
    return _rate(said[base]) - _rate(said[base & member])


def _class_recall(labels: Tensor, predictions: Tensor, classes: int) -> Tensor:
    """Mean recall over classes minus each class's own; 0 for a class without samples."""  # [K]
    number = torch.bincount(labels, minlength=classes).double()
    right = torch.bincount(labels[predictions == labels], minlength=classes).double()
    seen = number > 0
    recall = right / number.clamp_min(1)
    return torch.where(seen, recall[seen].mean() - recall, 0.0)


def _group_recall(labels: Tensor, groups: Tensor, predictions: Tensor, shape: tuple[int, int]) -> Tensor:
    """Each class's recall minus its recall in each group.

    A class that lives in one group alone has nothing to be compared with there: it is compared with the mean recall
    over classes, or class as attribute would never move.
    """  # [K, G + 1]
    found = torch.zeros(shape, dtype=torch.float64)
    pivot = _class_recall(labels, predictions, shape[0])
    right = predictions == labels
    for label in range(shape[0]):
        own = labels == label
        homes = torch.unique(groups[own & (groups >= 0)]).tolist()
        for group in homes:
            member = groups == group
            found[label, group + 1] = pivot[label] if len(homes) == 1 else _gap(right, own, member)
    return found


def check_constraint(
    name: str, constraint: str | None, target: Mapping[int, float] | None, positive: int
) -> dict[int, float] | None:
    """Refuse what no constraint can mean; the target with whole numbers as keys (JSON has texts)."""
    if constraint is not None and constraint not in CONSTRAINTS:
        raise BadInput(f"{name}(constraint={constraint!r}): choose from {', '.join(CONSTRAINTS)}.")
    if (constraint == "rate") != (target is not None):
        raise BadInput(f"{name}: constraint='rate' and target={{label: rate}} go together; give both or neither.")
    if positive < 0:
        raise BadInput(f"{name}(positive={positive}): give the label that counts as positive, 0 or more.")
    if target is None:
        return None
    wanted = {int(label): float(rate) for label, rate in target.items()}
    if not wanted or any(label < 0 or not 0 <= rate <= 1 for label, rate in wanted.items()):
        raise BadInput(f"{name}(target={dict(target)}): give labels from 0 with rates from 0 to 1.")
    return wanted
