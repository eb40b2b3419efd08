"""What suits a data set where the user said nothing; chosen on validation (benchmarks/tabular.py, records/)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.experiments.network import hidden_for, suited
from fairweight.experiments.spec import Spec
from fairweight.types import Cells, Samples

STEPS = 3_000  # of a small network: as many epochs as make up so many steps, within bounds
EXEMPLARS = 128  # in a batch, shared out evenly over the cells, within bounds
TIED_RATE = 0.03  # of the score step where cells share scores: a shared score moves at every step, a sample's own once
STRENGTH = 0.3  # of the term that compares groups, beside the mean loss


def with_defaults(spec: Spec, dataset: Dataset, asked: Mapping[str, Any]) -> Spec:
    """The Spec with what suits its data and method; `asked` are its fields that the user has set."""
    suits = _training(dataset, asked)
    chosen = {**suits, **asked, "network": suits["network"]}
    chosen["method_options"] = {**method_defaults(spec.method, dataset), **asked.get("method_options", {})}
    if dataset.validation is None:
        chosen["early_stopping"] = {}
    return spec.with_(**chosen)


def _training(dataset: Dataset, asked: Mapping[str, Any]) -> dict[str, Any]:
    size = len(dataset.train)
    network: dict[str, Any] = {"name": suited(dataset.preprocessing), **asked.get("network", {})}
    if network["name"] == "mlp":
        network = {"hidden": list(hidden_for(dataset.preprocessing)), **network}
    cells = max(1, len(cells_of(dataset.exemplar)))
    common = {"network": network, "per_cell": min(32, max(3, EXEMPLARS // cells))}
    if network["name"] == "resnet18":
        large = size >= 10_000
        epochs = int(asked.get("epochs", 30))
        return {
            **common,
            "optimizer": "sgd" if large else "adam",
            "lr": 0.1 if large else 1e-3,
            "weight_decay": 5e-4 if large else 0.0,
            "schedule": {"name": "cosine"},
            "epochs": epochs,
            "batch_size": 128,
            "augment": True,
            "early_stopping": {"metric": "objective", "patience": epochs},  # a falling rate is best at its end
        }
    batch = next(b for b, below in ((32, 500), (64, 2_000), (128, 10_000), (256, math.inf)) if size < below)
    batch = int(asked.get("batch_size", batch))
    epochs = int(asked.get("epochs", min(100, max(20, round(STEPS / math.ceil(size / batch))))))
    return {
        **common,
        "optimizer": "adam",
        "lr": 1e-3,
        "epochs": epochs,
        "batch_size": batch,
        "early_stopping": {"metric": "objective", "patience": max(5, epochs // 5)},
    }


def method_defaults(method: str, dataset: Dataset) -> dict[str, Any]:
    """Objective, ties and score step of a method that learns scores; nothing for others, which have their paper's.

    Where groups stand beside the label, the objective is the mean loss at natural shares, so that a gap is not closed
    by giving up accuracy everywhere, plus a term that compares groups; samples of a cell share a score besides their
    own. Where the label stands for the group, the method's own defaults are the ones that were chosen for it.
    """
    known = inspect.signature(catalog.load("reweight", method)).parameters
    if not {"objective", "tie", "score_step"} <= set(known) or not dataset.group_names:
        return {}
    chosen: dict[str, Any] = {"objective": f"mean + {STRENGTH:g} * {fairness_term(dataset)}"}
    if knows_groups(dataset.train):
        chosen |= {"tie": "cell", "score_step": {"name": "adaptive", "rate": TIED_RATE}}
    return chosen


def fairness_term(dataset: Dataset) -> str:
    """What compares the groups of this data: true positive rates, or the losses within each label."""
    if not dataset.group_names:
        return "variance"
    return "equal-opportunity-rate" if len(dataset.label_names) == 2 else "equal-odds"


def knows_groups(samples: Samples) -> bool:
    """Whether any sample's group is known."""
    return samples.groups is not None and bool((samples.groups >= 0).any())


def cells_of(samples: Samples) -> Cells:
    """Label and group of every sample, or the label alone."""
    return Cells.of(samples.labels, samples.groups)


def in_words(spec: Spec, dataset: Dataset) -> dict[str, str]:
    """The settings of a run, a line each, for people."""
    options = dict(spec.method_options)
    method = [spec.method]
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
    cells = len(cells_of(dataset.exemplar))
    return {
        "method": ", ".join(method),
        "network": ", ".join([str(spec.network["name"]), *(f"{key} {_plain(v)}" for key, v in network.items())]),
        "optimizer": ", ".join(optimizer),
        "epochs": epochs,
        "batch": f"{spec.batch_size} rows"
        + f"; exemplars: {spec.per_cell} of each of {cells} cells at every step"
        + ("; flips and shifts" if spec.augment else ""),
        "seed": str(spec.seed),
    }


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(item)}" if key != "name" else str(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return str(value)
