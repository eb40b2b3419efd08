"""What models that were not trained on a row say of its label: a run on a table keeps it, to find wrong labels by.

A model that was trained on a label tends to repeat it. The trees of a random forest that did not draw the row, and a
logistic regression that was fitted on other rows, do not; kept is the geometric mean of their chances.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairweight.data import Dataset
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.types import Batch

Array = np.ndarray[Any, Any]
Outputs = tuple[Tensor, Tensor, Tensor | None]  # logits [N, K], labels [N], groups [N]
PARTS = ("train, held out", "exemplar, held out")  # names beside the finished model's logits
DRAWN = "Exemplar set:"  # how the data says that exemplars were drawn, and not given
FOLDS = 3
TREES, LEAF = 100, 10  # of the forest; rows in a leaf
MANY, FEWER = 20_000, 50  # rows from which fewer trees are enough
FITTED = 8_000  # rows that a tree or a regression is fitted on, at most
WIDEST = 600  # inputs that the regression is quick with


def trusts_exemplars(data: Mapping[str, Any]) -> bool:
    """True if the exemplars were given for the purpose, or are known to be right, by what a run says of its data."""
    options = data.get("options", {})
    if data.get("corruptions"):
        return "exemplar" not in options.get("corrupt_parts", ())
    if (options.get("exemplar") or {}).get("source", "train") not in ("train", "validation"):
        return True
    return not any(str(note).startswith(DRAWN) for note in data.get("notes", ()))


def held_out_parts(dataset: Dataset, data: Mapping[str, Any]) -> dict[str, tuple[Batch, Tensor]]:
    """Logs of held-out chances for train and exemplars, where the data is a table and exemplars are trusted."""
    train, exemplar = dataset.train, dataset.exemplar
    inside = (data.get("options", {}).get("exemplar") or {}).get("inside", False)
    if dataset.kind != "table" or inside or exemplar is train or not trusts_exemplars(data):
        return {}
    if not (isinstance(train, Batch) and isinstance(exemplar, Batch)):
        return {}
    inputs = np.concatenate([torch.as_tensor(part.inputs).flatten(1).numpy() for part in (train, exemplar)])
    labels = np.concatenate([part.labels.numpy() for part in (train, exemplar)])
    log_chances = torch.from_numpy(np.log(held_out_chances(inputs, labels, len(dataset.label_names))))
    return {PARTS[0]: (train, log_chances[: len(train)]), PARTS[1]: (exemplar, log_chances[len(train) :])}


def noise_of(dataset: Dataset) -> LabelNoise | None:
    """How many labels of train are wrong, by held-out opinions; None where there are no trusted exemplars beside it."""
    parts = held_out_parts(dataset, {**dataset.spec, "notes": dataset.notes})
    if not parts:
        return None
    train, trusted = ((outputs, part.labels, part.groups) for part, outputs in (parts[name] for name in PARTS))
    opinion = opinion_of(train, trusted)
    return None if opinion is None else label_noise(**opinion)


def opinion_of(train: Outputs, trusted: Outputs, grouped: bool = True) -> dict[str, Any] | None:
    """Arguments of label_noise by what was said of train and of trusted rows; None where too few are trusted."""
    arguments: dict[str, Any] = {}
    known = [groups for _, _, groups in (train, trusted) if groups is not None]
    last = max((int(groups.max()) for groups in known), default=-1) + 1
    for name, (outputs, labels, groups) in {"": train, "trusted_": trusted}.items():
        logits = outputs.reshape(len(outputs), -1).double().cpu().numpy()
        if logits.shape[1] == 1:  # that of the positive label
            logits = np.concatenate([0 * logits, logits], axis=1)
        arguments |= {f"{name}logits": logits, f"{name}labels": labels.cpu().numpy()}
        if grouped and len(known) == 2 and groups is not None:
            arguments[f"{name}groups"] = groups.where(groups >= 0, last).cpu().numpy()  # not known: a group of its own
    return arguments if len(arguments["trusted_labels"]) >= arguments["logits"].shape[1] else None


def held_out_chances(inputs: Array, labels: Array, classes: int) -> Array:
    """Chances of every label for each row, by models that were not trained on the row."""  # [N, K]
    from scipy.special import softmax
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    x, y = np.ascontiguousarray(inputs.reshape(len(inputs), -1), dtype=np.float32), np.asarray(labels)
    n, random = len(y), np.random.default_rng(0)
    if len(np.unique(y)) < 2:
        alone: Array = np.eye(classes)[y]
        return alone
    total = np.full((n, classes), np.log(0.003))  # no tree of so few is surer than that
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a row that every tree drew, a regression that stopped early: both are fine
        forest = RandomForestClassifier(
            TREES if n <= MANY else FEWER, min_samples_leaf=min(LEAF, max(1, n // 50)),
            max_samples=min(n, FITTED), oob_score=True, random_state=0,
        ).fit(x, y)  # fmt: skip
        by_forest = np.nan_to_num(forest.oob_decision_function_, nan=1 / len(forest.classes_))
        total[:, forest.classes_] = np.log(np.maximum(by_forest, 0.003))
        fold = random.permutation(n) % FOLDS
        for part in range(FOLDS if x.shape[1] <= WIDEST else 0):
            outside, inside = random.permutation(np.flatnonzero(fold != part))[:FITTED], fold == part
            if len(np.unique(y[outside])) < 2:  # all rows of a rare label are in this part: the forest speaks alone
                total[inside] *= 2
                continue
            fitted = LogisticRegression(C=0.1, max_iter=200).fit(x[outside], y[outside])
            by_regression = np.full((inside.sum(), classes), 1e-6)
            by_regression[:, fitted.classes_] = np.maximum(fitted.predict_proba(x[inside]), 1e-6)
            total[inside] += np.log(by_regression)
    chances: Array = softmax(total if x.shape[1] > WIDEST else total / 2, axis=1)
    return chances
