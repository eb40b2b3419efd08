"""A method from its name and plain options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from torch import nn

from fairweight import catalog
from fairweight.errors import BadInput, UnknownName
from fairweight.objectives import Objective
from fairweight.objectives._among import Among
from fairweight.objectives._words import objective_from
from fairweight.reweight import Reweighter
from fairweight.reweight._look_ahead import LookAhead
from fairweight.reweight._score_step import AdaptiveStep, PlainStep, ScoreStep


def method_from(name: str, options: Mapping[str, Any], model: nn.Module, num_samples: int) -> Reweighter:
    """The method of that name; objective, look_ahead, score_step and target may be given in words.

    score_step: {"name": "plain", "scale": 10} or {"name": "adaptive", "rate": 0.3}; look_ahead: {"reverse": true}.
    objective: "mean + variance", or {"name": "max-discrepancy", "of": "mean", "among": "positives"} with its options.
    """
    kind = cast(type[Reweighter], catalog.load("reweight", name))
    known = list(inspect.signature(kind).parameters)[2:]
    given: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            raise UnknownName(f"{name} has no option {key!r}; it has: {', '.join(known) or 'none'}.")
        given[key] = _made(key, value)
    return kind(model, num_samples, **given)


def _made(key: str, value: Any) -> Any:
    if key == "objective" and isinstance(value, str):
        return objective_from(value)
    if key == "objective" and isinstance(value, Mapping):
        return _objective(value)
    if key == "look_ahead" and isinstance(value, Mapping):
        return LookAhead(**_known(value, [f.name for f in fields(LookAhead)], "look_ahead"))
    if key == "score_step" and isinstance(value, Mapping):
        return _score_step(value)
    if key == "target" and isinstance(value, Mapping):
        return {int(label): float(share) for label, share in value.items()}  # JSON's keys are text
    return value


def _objective(value: Mapping[str, Any]) -> Objective:
    kind = catalog.load("objectives", str(value.get("name")))
    among = str(value.get("among", "all"))
    rest = {key: item for key, item in value.items() if key not in ("name", "among")}
    made = kind(**_known(rest, list(inspect.signature(kind).parameters), "objective"))
    return cast(Objective, made) if among == "all" else Among(made, among)


def _score_step(value: Mapping[str, Any]) -> ScoreStep:
    kinds: dict[str, type[ScoreStep]] = {"plain": PlainStep, "adaptive": AdaptiveStep}
    rest = {key: item for key, item in value.items() if key != "name"}
    kind = kinds.get(str(value.get("name", "adaptive")))
    if kind is None:
        raise UnknownName(f"{value['name']!r} is no score step; choose from: {', '.join(kinds)}.")
    return kind(**_known(rest, list(inspect.signature(kind).parameters), "score_step"))


def _known(value: Mapping[str, Any], names: list[str], what: str) -> dict[str, Any]:
    strange = sorted(set(value) - set(names))
    if strange:
        raise BadInput(f"{what} has no option {strange[0]!r}; it has: {', '.join(names)}.")
    return dict(value)
