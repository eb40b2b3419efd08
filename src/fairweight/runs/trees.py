"""Train boosted trees with sample weights and keep them as plain arrays.

They are LightGBM's where it is installed (the extra `lightgbm`), scikit-learn's HistGradientBoosting otherwise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fairweight.constraints import plain_seed
from fairweight.data import Dataset, TablePreprocessing
from fairweight.models.trees import TreeEnsemble
from fairweight.types import Batch

ITERATIONS = 100
LEAVES, LEAST, RATE = 15, 20, 0.1  # leaves of a tree, rows of a leaf, learning rate
BINS = 255  # of a column
NEVER = -30.0  # logit of a class that no training row has
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The library's model, what all outputs start from, and each tree's output with its nodes.
Grown = tuple[Any, Floats, list[tuple[int, dict[str, npt.NDArray[Any]]]]]


def columns_of(dataset: Dataset) -> list[tuple[int, int]]:
    """First and last-but-one place of each column among the inputs; categories have one place per value."""
    plan = dataset.preprocessing
    widths = [1] * dataset.input_shape[0]
    if isinstance(plan, TablePreprocessing):
        sizes = [(column.kind == "category", len(column.features())) for column in plan.columns]
        widths = [width for whole, size in sizes for width in ([size] if whole else [1] * size)]
    ends = np.cumsum(widths).tolist()
    return list(zip([0, *ends], ends, strict=False))


def mix_for(inputs: Floats, labels: npt.NDArray[Any], columns: list[tuple[int, int]], classes: int) -> Floats:
    """Map of the inputs to one column per category, its values in the order of their share of positives.

    Trees then split a category in one step, and train as fast as on the original columns. With more than two classes
    there is no such order, and the inputs stay as they are.
    """  # [F, C]
    if classes != 2:
        return np.eye(inputs.shape[1])
    mix = np.zeros((inputs.shape[1], len(columns)))
    for place, (first, end) in enumerate(columns):
        block = inputs[:, first:end]
        share = (block.T @ labels + 10 * labels.mean()) / (block.sum(axis=0) + 10)  # of rare values: near the mean
        mix[first:end, place] = 1 + share.argsort(kind="stable").argsort(kind="stable") if end - first > 1 else 1.0
    return mix


def network_of(model: nn.Module) -> dict[str, Any]:
    """Options of the network that make trees of the same sizes."""
    assert isinstance(model, TreeEnsemble)
    features, trees, nodes = model.mix.shape[1], len(model.roots), len(model.feature)
    return {"name": "trees", "features": features, "trees": trees, "nodes": nodes, "depth": model.depth}


def installed_library() -> str:
    """Name the package that trees are grown by."""
    return "lightgbm" if importlib.util.find_spec("lightgbm") is not None else "scikit-learn"


def fit_trees(
    train: Batch, weights: Tensor | None, dataset: Dataset, iterations: int = ITERATIONS, seed: int = 0
) -> tuple[TreeEnsemble, Any]:
    """Train on rows of the data that each count their weight: the trees as a module, and as their library has them."""
    assert isinstance(train.inputs, Tensor)
    classes = len(dataset.label_names)
    x, y = train.inputs.flatten(1).double().numpy(), train.labels.numpy()
    mix = mix_for(x, y, columns_of(dataset), classes)
    there = np.unique(y)  # a fold may lack a class
    heavy = None if weights is None else weights.double().numpy()
    grow = _lightgbm if installed_library() == "lightgbm" else _scikit_learn
    columns = x @ mix
    # Libraries are given numbers of bins: LightGBM's own bins change with where a column's zero lies.
    edges = [_edges(column) for column in columns.T]
    given = binned(columns, edges), np.searchsorted(there, y), heavy
    boosted, base, trees = grow(*given, len(there), iterations, seed)
    for _, nodes in trees:  # from the number of a bin to where it ends
        parts = zip(nodes["feature"], nodes["threshold"], nodes["leaf"], strict=True)
        nodes["threshold"] = np.array([0.0 if leaf else edges[int(c)][int(bin_)] for c, bin_, leaf in parts])
    # Two classes have one output, that of the second; a class that no row has is never predicted.
    outputs = np.zeros(1, dtype=np.int64) if classes == 2 else there if len(there) > 2 else there[1:]
    start = np.zeros(1)
    if classes > 2:
        start = np.full(classes, NEVER)
        start[there] = 0.0
    start[outputs] = base
    sizes = [len(nodes["value"]) for _, nodes in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    offset, place = np.repeat(roots, sizes), np.arange(sum(sizes))
    whole = {key: np.concatenate([nodes[key] for _, nodes in trees]) for key in trees[0][1]}
    leaf = whole["leaf"].astype(bool)
    arrays = {
        "mix": mix,
        "start": start,
        "roots": roots,
        "output": outputs[[k for k, _ in trees]],
        "feature": np.where(leaf, 0, whole["feature"]).astype(np.int64),
        "threshold": np.where(leaf, 0.0, whole["threshold"]),
        "left": np.where(leaf, place, offset + whole["left"]),
        "right": np.where(leaf, place, offset + whole["right"]),
        "value": np.where(leaf, whole["value"], 0.0),
    }
    depth = int(whole["depth"].max(initial=0))
    sized = {"features": mix.shape[1], "trees": len(trees), "nodes": len(place), "depth": depth}
    made = TreeEnsemble(x.shape[1], classes, **sized)
    made.load_state_dict({key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()})
    return made, boosted


def _scikit_learn(x: Floats, y: Ints, weights: Floats | None, classes: int, iterations: int, seed: int) -> Grown:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    boosted = HistGradientBoostingClassifier(
        max_iter=iterations, early_stopping=False, random_state=plain_seed(seed, 32), max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAST, learning_rate=RATE,
    )  # fmt: skip
    with threadpool_limits(1):  # its threads wait by spinning: on a busy machine two are ten times slower than one
        boosted.fit(x, y, sample_weight=weights)
    # scikit-learn has no public view of the nodes; the test of equal predictions guards this one
    names = {"leaf": "is_leaf", "feature": "feature_idx", "threshold": "num_threshold", "left": "left",
             "right": "right", "value": "value", "depth": "depth"}  # fmt: skip
    trees = [
        (k, {key: tree.nodes[name] for key, name in names.items()})
        for step in boosted._predictors
        for k, tree in enumerate(step)
    ]
    return boosted, np.asarray(boosted._baseline_prediction, dtype=np.float64).ravel(), trees


def _edges(column: Floats) -> Floats:
    """Where a column's bins end: between its values, or at quantiles where there are more than bins.

    The same as scikit-learn's for rows that count alike; with weights it takes weighted ones, a hundred times slower.
    """
    values = np.unique(column)
    if len(values) <= BINS:
        return np.asarray((values[1:] + values[:-1]) / 2)
    parts = np.linspace(0, 100, BINS + 1)[1:-1]
    return np.unique(np.percentile(column, parts, method="averaged_inverted_cdf"))


def binned(x: Floats, edges: list[Floats]) -> Floats:
    """Number of each value's bin; an end belongs to the bin before it."""  # [N, C]
    return np.stack([np.searchsorted(e, column) for e, column in zip(edges, x.T, strict=True)], axis=1).astype(float)


def _lightgbm(x: Floats, y: Ints, weights: Floats | None, classes: int, iterations: int, seed: int) -> Grown:
    import lightgbm

    options: dict[str, Any] = {
        "objective": "binary" if classes == 2 else "multiclass", "num_leaves": LEAVES, "min_data_in_leaf": LEAST,
        "learning_rate": RATE, "seed": plain_seed(seed, 31), "num_threads": 1, "deterministic": True,
        "force_col_wise": True, "verbosity": -1, **({} if classes == 2 else {"num_class": classes}),
    }  # fmt: skip
    boosted = lightgbm.train(options, lightgbm.Dataset(x, y, weight=weights), num_boost_round=iterations)
    model = boosted.dump_model()
    per = model["num_tree_per_iteration"]
    trees = [(k % per, _nodes(tree["tree_structure"])) for k, tree in enumerate(model["tree_info"])]
    return boosted, np.zeros(per), trees  # where it starts from is part of its first leaves


def _nodes(root: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Nodes of a LightGBM tree as arrays, a parent before its children."""
    rows: list[list[float]] = []

    def add(node: Mapping[str, Any], depth: int) -> int:
        place = len(rows)
        if "split_feature" not in node:
            rows.append([1, 0, 0.0, 0, 0, node["leaf_value"], depth])
            return place
        rows.append([0, node["split_feature"], node["threshold"], 0, 0, 0.0, depth])
        rows[place][3] = add(node["left_child"], depth + 1)
        rows[place][4] = add(node["right_child"], depth + 1)
        return place

    add(root, 0)
    found = np.array(rows).T
    whole = found[[0, 1, 3, 4, 6]].astype(np.int64)
    return {"leaf": whole[0], "feature": whole[1], "threshold": found[2], "left": whole[2], "right": whole[3],
            "value": found[5], "depth": whole[4]}  # fmt: skip
