"""The network, optimizer and schedule of a Spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fairweight.data import Dataset, Normalize
from fairweight.data.image import ImagePreprocessing
from fairweight.errors import UnknownName
from fairweight.experiments.spec import Spec
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18


def network_for(dataset: Dataset, options: Mapping[str, Any]) -> nn.Module:
    """The named network, or one that suits the data: an MLP for tables and tiny grey images, otherwise ResNet-18."""
    rest = {key: value for key, value in options.items() if key != "name"}
    shape, classes = dataset.input_shape, len(dataset.label_names)
    name = options.get("name") or _suited(dataset)
    body: nn.Module
    if name == "mlp":
        hidden = tuple(rest.pop("hidden", (64, 64) if math.prod(shape) < 200 else (256, 256)))
        body = MLP(math.prod(shape), classes, hidden, **rest)
    elif name == "resnet18":
        stem = rest.pop("stem", "small" if shape[-1] < 96 else "large")
        body = ResNet18(classes, stem, channels=shape[0], **rest)
    else:
        raise UnknownName(
            f"{name!r} is no network of fairweight; choose mlp or resnet18, or train your own with fit()."
        )
    if isinstance(dataset.preprocessing, ImagePreprocessing):
        return nn.Sequential(Normalize(dataset.preprocessing.mean, dataset.preprocessing.std), body)
    return body


def _suited(dataset: Dataset) -> str:
    small = dataset.kind == "image" and dataset.input_shape[0] == 1 and dataset.input_shape[-1] <= 28
    return "mlp" if dataset.kind == "table" or small else "resnet18"


def optimizer_for(model: nn.Module, spec: Spec, device: str) -> torch.optim.Optimizer:
    """The named optimizer."""
    parameters = model.parameters()
    if spec.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=spec.lr,
            momentum=spec.momentum,
            nesterov=spec.nesterov and spec.momentum > 0,
            weight_decay=spec.weight_decay,
        )
    capturable = device.startswith("cuda")  # so that whole steps can be replayed as a graph
    if spec.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=spec.lr, weight_decay=spec.weight_decay, capturable=capturable)
    if spec.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=spec.lr, weight_decay=spec.weight_decay, capturable=capturable)
    raise UnknownName(f"{spec.optimizer!r} is no optimizer of the command line; choose sgd, adam or adamw.")


def scheduler_for(optimizer: torch.optim.Optimizer, spec: Spec) -> torch.optim.lr_scheduler.LRScheduler | None:
    """The named schedule, stepped once per epoch."""
    name = spec.schedule.get("name")
    if name is None:
        return None
    if name == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, spec.epochs)
    if name == "step":
        at = [int(epoch) for epoch in spec.schedule["at"]]
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, at, float(spec.schedule.get("factor", 0.1)))
    raise UnknownName(f"{name!r} is no schedule; choose cosine or step.")
