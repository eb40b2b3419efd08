"""Model, method and optimizer from an estimator's parameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from fairweight import catalog
from fairweight.errors import BadInput, OneGroup, UnknownName
from fairweight.methods import Reweighter
from fairweight.methods.score_step import AdaptiveStep
from fairweight.models.mlp import MLP
from fairweight.objectives._words import objective_from
from fairweight.runs.defaults import method_defaults
from fairweight.types import Batch

SMALL = 500_000  # parameters of a network that one thread serves best


def check_counts(epochs: int | None, batch_size: int | None, patience: int, hidden: Sequence[int]) -> None:
    """Refuse numbers that no training could use; scikit-learn wants that in fit, not before."""
    for name, value, least in (("epochs", epochs, 1), ("batch_size", batch_size, 1), ("patience", patience, 0)):
        if value is not None and value < least:
            raise BadInput(f"{name}={value}: give a whole number from {least}.")
    if not isinstance(hidden, Iterable) or any(width < 1 for width in hidden):
        raise BadInput(f"hidden={hidden!r}: give the layers' widths, each from 1, such as (64, 64).")


def module_from(
    module: nn.Module | Callable[..., nn.Module] | None, hidden: Sequence[int], features: int, classes: int
) -> nn.Module:
    """An MLP, a copy of the model, or what the class or function makes of (features, classes) or of nothing."""
    if module is None:
        return MLP(features, classes, hidden)
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    made = module(features, classes) if _takes_two(module) else module()
    if not isinstance(made, nn.Module):
        raise BadInput(f"module made a {type(made).__name__}, not a torch.nn.Module; give what makes a model.")
    return made


def _takes_two(made_by: Callable[..., Any]) -> bool:
    try:
        inspect.signature(made_by).bind(1, 2)
    except TypeError:
        return False
    return True


def method_from(
    name: str,
    objective: Any,
    given: Mapping[str, Any] | None,
    model: nn.Module,
    train: Batch,
    held: Batch,
    classes: int,
) -> Reweighter:
    """The method of that name, with what suits the data where nothing was said."""
    kind = cast(type[Reweighter], catalog.load("methods", name))
    known = list(inspect.signature(kind).parameters)[2:]
    knows = train.groups is not None and bool((train.groups >= 0).any())
    options = method_defaults(name, classes, groups=held.groups is not None, train_groups=knows)
    if "objective" in options and held.groups is not None and len(set(held.groups.tolist()) - {-1}) < 2:
        raise OneGroup(
            "sensitive_features holds one group only; there is nothing to compare: give another column, or leave it "
            "out to compare the classes."
        )
    if "score_step" in options:
        options["score_step"] = AdaptiveStep(rate=options["score_step"]["rate"])
    options |= {} if objective is None else {"objective": objective}
    options |= dict(given or {})
    if strange := [option for option in options if option not in known]:
        raise UnknownName(f"{name} has no option {strange[0]!r}; it has: {', '.join(known) or 'none'}.")
    if isinstance(options.get("objective"), str):
        options["objective"] = objective_from(options["objective"])
    return kind(model, len(train), **options)


def optimizer_from(name: str, model: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """The optimizer of that name."""
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=weight_decay)
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr, weight_decay=weight_decay)
    if name == "adamw":
        return torch.optim.AdamW(model.parameters(), lr, weight_decay=weight_decay)
    raise UnknownName(f"optimizer={name!r}: choose from: adam, adamw, sgd.")


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """One thread while a small network is used on a CPU, where more cost more than they save; then as before."""
    first = next(model.parameters(), None)
    before = torch.get_num_threads()
    small = sum(p.numel() for p in model.parameters()) < SMALL
    if first is not None and first.device.type == "cpu" and small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
