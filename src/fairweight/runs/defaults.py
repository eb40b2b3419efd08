"""What suits a data set where the user said nothing; what it gives is measured by benchmarks/tabular.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.methods import Reweighter
from fairweight.runs.build import hidden_for, suited
from fairweight.runs.method_defaults import suited_options
from fairweight.runs.spec import Spec
from fairweight.types import Cells, Samples

STEPS = 3_000  # of a small network: as many epochs as make up so many steps, within bounds
EXEMPLARS = 128  # in a batch, shared out evenly over the cells, within bounds


def with_defaults(spec: Spec, dataset: Dataset, asked: Mapping[str, Any], device: str = "cpu") -> Spec:
    """The Spec with what suits its data, method and device; `asked` are its fields that the user has set."""
    suits = _training(dataset, asked, device)
    chosen = {**suits, **asked, "network": suits["network"]}
    classes, groups = len(dataset.label_names), bool(dataset.group_names)
    suited_to_method = suited_options(spec.method, classes, groups=groups, train_groups=knows_groups(dataset.train))
    chosen["method_options"] = _over(suited_to_method, asked.get("method_options", {}))
    if dataset.validation is None:
        chosen["early_stopping"] = {}
    return spec.with_(**chosen)


def _over(suited: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for over what suits; of a part such as score_step, unless another is named, the rest stays."""
    found = {**suited, **asked}
    for key, value in asked.items():
        usual = suited.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(usual, Mapping)
            and value.get("name", usual["name"]) == usual["name"]
        ):
            found[key] = {**usual, **value}
    return found


def _training(dataset: Dataset, asked: Mapping[str, Any], device: str) -> dict[str, Any]:
    size, shape = len(dataset.train), dataset.input_shape
    network: dict[str, Any] = {"name": suited(dataset.preprocessing), **asked.get("network", {})}
    if network["name"] == "mlp":
        network = {"hidden": list(hidden_for(dataset.preprocessing)), **network}
    elif network["name"] == "resnet18" and device == "cpu":  # a narrow one, some hundred times cheaper
        network = {"width": 16, "stem": "large" if shape[-1] >= 64 else "small", **network}
    cells = cells_of(dataset.exemplar)
    common = {"network": network, "per_cell": _per_cell(cells)}
    if network["name"] == "resnet18":
        large = size >= 10_000
        epochs = int(asked.get("epochs", 15 if device == "cpu" else 30))
        return {
            **common,
            "optimizer": "sgd" if large else "adam",
            "lr": 0.1 if large else 1e-3,
            "weight_decay": 5e-4 if large else 0.0,
            # begun at a rate of 0.1 the loss of a wide network rises first, which a short run does not make up for
            "schedule": {"name": "cosine", **({"warm_up": min(2, epochs // 4)} if large else {})},
            "epochs": epochs,
            "batch_size": 128,
            "augment": True,
            "early_stopping": {"metric": "objective", "patience": epochs},  # a falling rate is best at its end
        }
    batch = next(b for b, below in ((32, 500), (64, 2_000), (128, 10_000), (256, math.inf)) if size < below)
    batch = int(asked.get("batch_size", batch))
    epochs = int(asked.get("epochs", min(100, max(20, round(STEPS / math.ceil(size / max(1, batch)))))))
    return {
        **common,
        "optimizer": "adam",
        "lr": 1e-3,
        "epochs": epochs,
        "batch_size": batch,
        "early_stopping": {"metric": "objective", "patience": max(5, epochs // 5)},
    }


def _per_cell(cells: Cells) -> int:
    """Exemplars of each cell in a step: an even part of the batch, and no more than the largest cell has."""
    part = min(32, max(3, EXEMPLARS // max(1, len(cells))))
    return min(part, max(cells.counts, default=part))


def knows_groups(samples: Samples) -> bool:
    """Whether any sample's group is known."""
    return samples.groups is not None and bool((samples.groups >= 0).any())


def cells_of(samples: Samples) -> Cells:
    """Label and group of every sample, or the label alone."""
    return Cells.of(samples.labels, samples.groups)


def in_words(spec: Spec, dataset: Dataset) -> dict[str, str]:
    """The settings of a run, a line each, for people."""
    options = dict(spec.method_options)
    method = [spec.method if options or spec.weights else f"{spec.method}, with its own defaults"]
    method += [f"the weights of {spec.weights['file']}"] if "file" in spec.weights else []
    if "objective" in options:
        method.append(f"objective {options.pop('objective')}")
    if options.get("tie"):
        method.append(f"scores shared by {options.pop('tie')}")
    method += [f"{key} {_plain(value)}" for key, value in options.items()]
    network = {key: value for key, value in spec.network.items() if key != "name"}
    optimizer = [spec.optimizer, f"learning rate {spec.lr:g}"]
    optimizer += [f"weight decay {spec.weight_decay:g}"] if spec.weight_decay else []
    optimizer += [f"{spec.schedule['name']} schedule"] if spec.schedule else []
    epochs = f"{spec.epochs}, and the last one's model is kept"
    if spec.early_stopping:
        patience, metric = int(spec.early_stopping["patience"]), spec.early_stopping["metric"]
        stops = f", stops after {patience} without a better one" if patience < spec.epochs else ""
        epochs = f"up to {spec.epochs}{stops}; the best on validation ({metric}) is kept"
    draws = "exemplar" in cast(type[Reweighter], catalog.load("methods", spec.method)).needs
    exemplars = f"; exemplars: {spec.per_cell} of each of {len(cells_of(dataset.exemplar))} cells at every step"
    exemplars += f", {spec.exemplar_batch} in all at least" if spec.exemplar_batch else ""
    search = {key: value for key, value in spec.search.items() if key != "name"}
    searched = [f"{spec.search['name']} over many trainings"] if spec.search else []
    searched += [f"{key} {_plain(value)}" for key, value in search.items()]
    return {
        "method": ", ".join(method),
        **({"search": ", ".join(searched)} if searched else {}),
        "network": ", ".join([str(spec.network["name"]), *(f"{key} {_plain(v)}" for key, v in network.items())]),
        "optimizer": ", ".join(optimizer),
        "epochs": epochs,
        "batch": f"{spec.batch_size} rows" + exemplars * draws + "; flips and shifts" * spec.augment,
        "seed": str(spec.seed),
    }


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(item)}" if key != "name" else str(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return str(value)
