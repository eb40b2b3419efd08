"""The network, optimizer and schedule of a Spec."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fairweight.data import ImagePreprocessing, Normalize, Preprocessing
from fairweight.errors import BadInput, UnknownName, option
from fairweight.metagradient.passes import call
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18
from fairweight.runs.own_model import model_from
from fairweight.runs.spec import Spec
from fairweight.training.predict import evaluating


def network_for(preprocessing: Preprocessing, options: Mapping[str, Any]) -> nn.Module:
    """The named network, or one that suits the data: an MLP for tables and tiny grey images, otherwise ResNet-18.

    A name with a colon, MODULE:MODEL, is the user's own; it takes what the preprocessing gives.
    """
    rest = {key: value for key, value in options.items() if key != "name"}
    shape, classes = preprocessing.input_shape, len(preprocessing.meaning.label_names)
    name = str(options.get("name") or suited(preprocessing))
    body: nn.Module
    if name == "mlp":
        hidden = tuple(rest.pop("hidden", hidden_for(preprocessing)))
        body = MLP(math.prod(shape), classes, hidden, **_known(rest, ("dropout",), name))
    elif name == "resnet18" and len(shape) == 3:
        stem = rest.pop("stem", "small" if shape[-1] < 96 else "large")
        body = ResNet18(classes, stem, channels=shape[0], **_known(rest, ("width",), name))
    elif name == "resnet18":
        raise BadInput(
            f"resnet18 takes images, and these are rows of a table; choose mlp, or leave {option('network.name')} out."
        )
    elif ":" in name:
        body = model_from(name)
        _check_outputs(body, name, shape, classes)
    else:
        raise UnknownName(f"{name!r} is no network of fairweight; choose mlp, resnet18, or your own as MODULE:MODEL.")
    if isinstance(preprocessing, ImagePreprocessing):
        return nn.Sequential(Normalize(preprocessing.mean, preprocessing.std), body)
    return body


def suited(preprocessing: Preprocessing) -> str:
    """The name of the network that suits the data."""
    shape = preprocessing.input_shape
    small = len(shape) == 3 and shape[0] == 1 and shape[-1] <= 28
    return "mlp" if len(shape) == 1 or small else "resnet18"


def hidden_for(preprocessing: Preprocessing) -> tuple[int, ...]:
    """The widths of an MLP's hidden layers that suit the data."""
    return (64, 64) if math.prod(preprocessing.input_shape) < 200 else (256, 256)


def _known(rest: Mapping[str, Any], names: tuple[str, ...], network: str) -> dict[str, Any]:
    if strange := sorted(set(rest) - set(names)):
        raise UnknownName(f"{network} has no option {strange[0]!r}; it has: {', '.join(names)}.")
    return dict(rest)


def _check_outputs(model: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a user's network that does not take the inputs or does not score the classes."""
    size = 2
    try:
        with torch.no_grad(), evaluating(model):
            found = call(model, torch.zeros(size, *shape), size)
    except (RuntimeError, TypeError, IndexError) as error:
        first = str(error).strip().split("\n")[0]
        raise BadInput(f"{name} does not take inputs of shape {shape} ({first}); write it for that shape.") from error
    width = 2 if found.ndim == 1 or found.shape[1] == 1 else found.shape[1]
    if width != classes:
        raise BadInput(f"{name} scores {width} classes and the label has {classes}; give it {classes} outputs.")


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
        warm_up = int(spec.schedule.get("warm_up", 0))
        if warm_up:
            return torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_cosine(warm_up, spec.epochs))
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, spec.epochs)
    if name == "step":
        at = [int(epoch) for epoch in spec.schedule["at"]]
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, at, float(spec.schedule.get("factor", 0.1)))
    raise UnknownName(f"{name!r} is no schedule; choose cosine or step.")


def _warm_cosine(warm_up: int, epochs: int) -> Callable[[int], float]:
    """What the learning rate is multiplied by: rising over the first epochs, then falling along a cosine."""

    def factor(epoch: int) -> float:
        if epoch < warm_up:
            return (epoch + 0.5) / warm_up
        return 0.5 * (1 + math.cos(math.pi * (epoch - warm_up) / max(1, epochs - warm_up)))

    return factor
