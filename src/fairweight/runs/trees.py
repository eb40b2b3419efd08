"""Train boosted trees with sample weights (scikit-learn's HistGradientBoosting) and keep them as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fairweight.data import Dataset, TablePreprocessing
from fairweight.models.trees import TreeEnsemble

ITERATIONS = 100
Floats = npt.NDArray[np.float64]


def columns_of(dataset: Dataset) -> list[tuple[int, int]]:
    """First and last-but-one place of each column among the inputs; categories have one place per value."""
    plan = dataset.preprocessing
    if not isinstance(plan, TablePreprocessing):
        return [(place, place + 1) for place in range(dataset.input_shape[0])]
    found, place = [], 0
    for column in plan.columns:
        width = len(column.features())
        parts = [width] if column.kind == "category" else [1] * width
        for part in parts:
            found.append((place, place + part))
            place += part
    return found


def mix_for(inputs: Floats, labels: npt.NDArray[Any], columns: list[tuple[int, int]], classes: int) -> Floats:
    """Map of the inputs to one column per category, its values in the order of their share of positives.

    Trees then split a category in one step, and train as fast as on the original columns. With more than two classes
    there is no such order, and the inputs stay as they are.
    """  # [F, C]
    if classes != 2:
        return np.eye(inputs.shape[1])
    mix = np.zeros((inputs.shape[1], len(columns)))
    for place, (first, end) in enumerate(columns):
        if end - first == 1:
            mix[first, place] = 1.0
            continue
        block = inputs[:, first:end]
        share = (block.T @ labels + 10 * labels.mean()) / (block.sum(axis=0) + 10)  # of rare values: near the mean
        mix[first:end, place] = 1 + np.argsort(np.argsort(share, kind="stable"), kind="stable")
    return mix


class FittedTrees:
    """Trained trees; `module` makes them a network that can be stored."""

    def __init__(self, boosted: Any, mix: Floats, classes: int) -> None:
        self.boosted, self.mix, self.classes = boosted, mix, classes

    def chances(self, inputs: Tensor, iterations: int | None = None) -> Floats:
        """Probabilities by scikit-learn; iterations: of the first so many trees."""  # [N, K]
        columns = inputs.flatten(1).double().numpy() @ self.mix
        if iterations is not None and iterations < self.boosted.n_iter_:
            staged = self.boosted.staged_predict_proba(columns)
            return self._every(np.asarray(next(found for k, found in enumerate(staged, 1) if k == iterations)))
        return self._every(np.asarray(self.boosted.predict_proba(columns)))

    def staged(self, inputs: Tensor) -> npt.NDArray[np.float64]:
        """Probabilities after every iteration."""  # [I, N, K]
        columns = inputs.flatten(1).double().numpy() @ self.mix
        return self._every(np.stack(list(self.boosted.staged_predict_proba(columns))))

    def _every(self, found: Floats) -> Floats:
        """Probabilities of all classes: 0 for those that no training row had."""  # [..., K]
        if found.shape[-1] == self.classes:
            return found
        every = np.zeros((*found.shape[:-1], self.classes))
        every[..., self.boosted.classes_] = found
        return every

    def module(self) -> tuple[TreeEnsemble, dict[str, Any]]:
        """The trees as a module, and the options of the network that make one of the same sizes."""
        predictors = [
            (k, one.nodes) for step in self.boosted._predictors for k, one in enumerate(step)
        ]  # scikit-learn has no public view of the nodes; the test of equal predictions guards this one
        sizes = [len(nodes) for _, nodes in predictors]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        whole = np.concatenate([nodes for _, nodes in predictors])
        offset = np.repeat(roots, sizes)
        own = np.arange(len(whole))
        leaf = whole["is_leaf"].astype(bool)
        arrays = {
            "mix": self.mix,
            "start": np.asarray(self.boosted._baseline_prediction, dtype=np.float64).ravel(),
            "roots": roots,
            "output": np.array([k for k, _ in predictors], dtype=np.int64),
            "feature": np.where(leaf, 0, whole["feature_idx"].astype(np.int64)),
            "threshold": np.where(leaf, 0.0, whole["num_threshold"]),
            "left": np.where(leaf, own, offset + whole["left"]),
            "right": np.where(leaf, own, offset + whole["right"]),
            "value": np.where(leaf, whole["value"], 0.0),
        }
        options = {
            "features": int(self.mix.shape[1]),
            "trees": len(predictors),
            "nodes": len(whole),
            "depth": int(whole["depth"].max(initial=0)),
        }
        made = TreeEnsemble(self.mix.shape[0], self.classes, **options)
        made.load_state_dict({key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()})
        return made, network_of(made)


def network_of(model: nn.Module) -> dict[str, Any]:
    """Options of the network that make trees of the same sizes."""
    assert isinstance(model, TreeEnsemble)
    features, trees, nodes = model.mix.shape[1], len(model.roots), len(model.feature)
    return {"name": "trees", "features": features, "trees": trees, "nodes": nodes, "depth": model.depth}


def fit_trees(
    inputs: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    columns: list[tuple[int, int]],
    classes: int,
    iterations: int = ITERATIONS,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> FittedTrees:
    """Train on rows that each count their weight."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    x, y = inputs.flatten(1).double().numpy(), labels.numpy()
    mix = mix_for(x, y, columns, classes)
    chosen: dict[str, Any] = {"max_leaf_nodes": 15, "min_samples_leaf": 20, "learning_rate": 0.1, **(options or {})}
    boosted = HistGradientBoostingClassifier(max_iter=iterations, early_stopping=False, random_state=seed, **chosen)
    with threadpool_limits(1):  # its threads wait by spinning: on a busy machine two are ten times slower than one
        boosted.fit(x @ mix, y, sample_weight=None if weights is None else weights.double().numpy())
    return FittedTrees(boosted, mix, classes)
