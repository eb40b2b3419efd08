"""A method from its name and plain options."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import nn

from fairweight import catalog
from fairweight.errors import BadInput, UnknownName
from fairweight.methods import Reweighter
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, PlainStep, ScoreStep
from fairweight.objectives import Objective
from fairweight.objectives._among import Among
from fairweight.objectives._words import objective_from

_PARTS = {"look_ahead": "look_ahead.lr=0.1", "score_step": "score_step.rate=0.1"}  # each has options of its own


def method_from(name: str, options: Mapping[str, Any], model: nn.Module, num_samples: int) -> Reweighter:
    """The method of that name; objective, look_ahead, score_step and target may be given in words.

    score_step: {"name": "plain", "scale": 10} or {"name": "adaptive", "rate": 0.3}; look_ahead: {"reverse": true}.
    objective: "mean + variance", or {"name": "max-discrepancy", "of": "mean", "among": "positives"} with its options.
    """
    kind = cast(type[Reweighter], catalog.load("methods", name))
    given = {key: _made(key, value) for key, value in _checked(kind, options, name, skipped=2).items()}
    return kind(model, num_samples, **given)


def _made(key: str, value: Any) -> Any:
    if key == "objective" and isinstance(value, str):
        return objective_from(value)
    if key == "objective" and isinstance(value, Mapping):
        return _objective(value)
    plain = isinstance(value, str | int | float | list)
    if key in _PARTS and plain:
        raise BadInput(f"{key}={value!r}: it is more than one value; give its parts by name, such as {_PARTS[key]}.")
    if key == "objective" and plain:
        raise BadInput(f"objective={value!r} is no objective; write for example 'mean + 0.5 * max-discrepancy'.")
    if key == "loss" and plain:
        raise BadInput(f"loss={value!r}: a loss is a function, which only Python can give; leave it out.")
    if key == "look_ahead" and isinstance(value, Mapping):
        return LookAhead(**_checked(LookAhead, value, "look_ahead"))
    if key == "score_step" and isinstance(value, Mapping):
        return _score_step(value)
    if key == "target" and isinstance(value, Mapping):
        return {int(label): float(share) for label, share in value.items()}  # JSON's keys are text
    return value


def _objective(value: Mapping[str, Any]) -> Objective:
    kind = catalog.load("objectives", str(value.get("name")))
    among = str(value.get("among", "all"))
    rest = {key: item for key, item in value.items() if key not in ("name", "among")}
    made = kind(**_checked(kind, rest, "objective"))
    return cast(Objective, made) if among == "all" else Among(made, among)


def _score_step(value: Mapping[str, Any]) -> ScoreStep:
    kinds: dict[str, type[ScoreStep]] = {"plain": PlainStep, "adaptive": AdaptiveStep}
    rest = {key: item for key, item in value.items() if key != "name"}
    kind = kinds.get(str(value.get("name", "adaptive")))
    if kind is None:
        raise UnknownName(f"{value['name']!r} is no score step; choose from: {', '.join(kinds)}.")
    return kind(**_checked(kind, rest, "score_step"))


def _checked(kind: Callable[..., Any], given: Mapping[str, Any], what: str, skipped: int = 0) -> dict[str, Any]:
    """The options, each one that it takes and of the type that it names; words alone can be told from numbers."""
    known = dict(list(inspect.signature(kind).parameters.items())[skipped:])
    options = dict(given)
    for key, value in given.items():
        if key not in known:
            raise UnknownName(f"{what} has no option {key!r}; it has: {', '.join(known) or 'none'}.")
        types = set(str(known[key].annotation).split(" | "))
        if value is None and "None" in types:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if types <= {"float", "int", "None"} and not number:
            raise BadInput(f"{what}: {key}={value!r}; give a number.")
        if types <= {"int", "None"} and value != int(value):
            raise BadInput(f"{what}: {key}={value!r}; give a whole number.")
        if types <= {"str", "None"} and type(value) is int:
            options[key] = str(value)  # a name in digits, as those of a Sequential's parts are
        elif types <= {"str", "None"} and not isinstance(value, str):
            raise BadInput(f"{what}: {key}={value!r}; give a name.")
        if types == {"bool"} and not isinstance(value, bool):
            raise BadInput(f"{what}: {key}={value!r}; give true or false.")
    return options
