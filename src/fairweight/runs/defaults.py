"""Choose what a user left open by the data; measured in the records tabular_choice and image_default."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.metrics.criterion import default_criterion
from fairweight.runs.build import default_network, default_widths
from fairweight.runs.spec import Spec
from fairweight.sampling import Cells
from fairweight.types import Samples

STEPS = 3_000  # of a small network: as many epochs as make up so many steps, within bounds
EXEMPLARS = 128  # in a batch, shared out evenly over the cells, within bounds
STRENGTH = 0.3  # of the term that compares groups, beside the mean loss
HEEDING: dict[str, Any] = {"heed": 1.0}  # of the score step on images, where exemplars may say nothing
LOOKS_EVERY = 20  # steps between looks at how far exemplars agree, where that is heeded
TIED_RATE = 0.03  # of the score step where cells share scores: a shared score moves at every step, a sample's own once


def with_defaults(spec: Spec, dataset: Dataset, asked: Mapping[str, Any], device: str = "cpu") -> Spec:
    """Fill in the Spec for its data, method and device; `asked` are its fields that the user has set."""
    usual = _training(dataset, asked, device)
    chosen = {**usual, **asked, "network": usual["network"]}
    classes, groups = len(dataset.label_names), bool(dataset.group_names)
    known, images = knows_groups(dataset.train), len(dataset.input_shape) == 3
    options = method_defaults(spec.method, classes, groups=groups, train_groups=known, images=images)
    for key, value in asked.get("method_options", {}).items():
        part = options.get(key)  # a part such as score_step keeps the rest unless another kind is named
        if isinstance(value, Mapping) and isinstance(part, Mapping) and value.get("name", part["name"]) == part["name"]:
            value = {**part, **value}
        options[key] = value
    chosen["method_options"] = options
    if dataset.validation is None:
        chosen["early_stopping"] = {}
    return spec.with_(**chosen)


def method_defaults(
    method: str, classes: int, *, groups: bool, train_groups: bool = True, images: bool = False
) -> dict[str, Any]:
    """Objective, ties and score step as plain values; none for methods without scores, which have their paper's.

    Where groups stand beside the label, the objective is the mean loss at natural shares, so that a gap is not closed
    by giving up accuracy everywhere, plus a term that compares groups; samples of a cell share a score besides their
    own. Where the label stands for the group, the method's own defaults are the ones that were chosen for it. On images
    scores move the less, the less exemplars agree: clean images leave little to learn, and much to spoil.
    """
    known = inspect.signature(catalog.load("methods", method)).parameters
    if not {"objective", "tie", "score_step"} <= set(known):
        return {}
    chosen: dict[str, Any] = {}
    if groups:
        chosen["objective"] = f"mean + {STRENGTH:g} * {default_criterion(classes, groups=True).objective(classes)}"
    if groups and train_groups:
        chosen |= {"tie": "cell", "score_step": {"name": "adaptive", "rate": TIED_RATE}}
    if images:
        step = {"name": "adaptive", **chosen.get("score_step", {}), **HEEDING}
        chosen |= {"score_step": step, "agreement_every": LOOKS_EVERY}
    return chosen


def knows_groups(samples: Samples) -> bool:
    """True if any sample's group is known."""
    return samples.groups is not None and bool((samples.groups >= 0).any())


def _training(dataset: Dataset, asked: Mapping[str, Any], device: str) -> dict[str, Any]:
    size, shape = len(dataset.train), dataset.input_shape
    network: dict[str, Any] = {"name": default_network(dataset.preprocessing), **asked.get("network", {})}
    if network["name"] == "mlp":
        network = {"hidden": list(default_widths(dataset.preprocessing)), **network}
    elif network["name"] == "resnet18" and device == "cpu":  # a narrow one, some hundred times cheaper
        network = {"width": 16, "stem": "large" if shape[-1] >= 64 else "small", **network}
    common = {"network": network, "per_cell": _per_cell(Cells.of(dataset.exemplar.labels, dataset.exemplar.groups))}
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
